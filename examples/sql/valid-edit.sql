-- The bakery's contract with the mill ends early, and the farm buys seed.
BEGIN;
UPDATE contract SET valid_to = DATE '2026-06-01' WHERE buyer = 'bakery';
INSERT INTO contract VALUES ('farm', 'seeds', DATE '2026-05-01', NULL);
COMMIT;
