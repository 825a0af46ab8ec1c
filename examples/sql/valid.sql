-- Reachability in time: through contracts that hold on the same day, from when until when.
CREATE TABLE contract (
    buyer TEXT NOT NULL, seller TEXT NOT NULL, valid_from DATE NOT NULL, valid_to DATE,
    PRIMARY KEY (buyer, seller, valid_from)
);

CREATE MATERIALIZED VIEW depends AS
WITH RECURSIVE depends (buyer, seller, valid_from, valid_to) AS (
    SELECT buyer, seller, valid_from, COALESCE(valid_to, DATE '9999-12-31') FROM contract
    UNION
    SELECT depends.buyer, contract.seller,
        GREATEST(depends.valid_from, contract.valid_from),
        LEAST(depends.valid_to, COALESCE(contract.valid_to, DATE '9999-12-31'))
    FROM depends JOIN contract ON contract.buyer = depends.seller
    WHERE contract.valid_from < depends.valid_to
    AND depends.valid_from < COALESCE(contract.valid_to, DATE '9999-12-31')
)
SELECT * FROM depends;

INSERT INTO contract VALUES
    ('shop', 'mill', DATE '2025-01-01', DATE '2026-01-01'),
    ('shop', 'bakery', DATE '2026-01-01', NULL),
    ('mill', 'farm', DATE '2025-07-01', NULL),
    ('bakery', 'mill', DATE '2026-03-01', DATE '2026-09-01');
