-- What a product is made of through every level, and what it costs today.
CREATE TABLE part (
    product TEXT NOT NULL,
    part TEXT NOT NULL,
    quantity INTEGER NOT NULL,
    PRIMARY KEY (product, part)
);
CREATE TABLE price (part TEXT PRIMARY KEY, amount DECIMAL(10, 2), valid_until DATE);

CREATE MATERIALIZED VIEW needs AS
WITH RECURSIVE uses (product, part, quantity, depth) AS (
    SELECT product, part, quantity, 1 FROM part
    UNION ALL
    SELECT uses.product, part.part, uses.quantity * part.quantity, uses.depth + 1
    FROM uses JOIN part ON part.product = uses.part
    WHERE uses.depth < 20
)
SELECT product, part, SUM(quantity) AS quantity FROM uses GROUP BY product, part;

-- A part without a price, or without a known one, makes the cost incomplete.
CREATE MATERIALIZED VIEW cost AS
SELECT
    needs.product,
    SUM(needs.quantity * price.amount) AS total,
    COUNT(*) - COUNT(price.amount) AS unknown,
    MIN(price.valid_until) AS valid_until
FROM needs LEFT JOIN price ON price.part = needs.part
WHERE NOT EXISTS (SELECT 1 FROM part WHERE part.product = needs.part)
GROUP BY needs.product;
