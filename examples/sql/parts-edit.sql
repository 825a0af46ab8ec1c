-- Lighter wheels, and hubs that are screwed together with fewer bolts.
BEGIN;
UPDATE holds SET quantity = 28 WHERE product = 'wheel' AND part = 'spoke';
UPDATE holds SET quantity = 4 WHERE product = 'hub';
COMMIT;
