-- A bill of materials: what a product needs in all, through every level.
CREATE TABLE holds (product TEXT NOT NULL, part TEXT NOT NULL, quantity INTEGER NOT NULL);

CREATE MATERIALIZED VIEW needs AS
WITH RECURSIVE uses (product, part, quantity, depth) AS (
    SELECT product, part, quantity, 1 FROM holds
    UNION ALL
    SELECT uses.product, holds.part, uses.quantity * holds.quantity, uses.depth + 1
    FROM uses JOIN holds ON holds.product = uses.part
    WHERE uses.depth < 20
)
SELECT product, part, SUM(quantity) AS quantity FROM uses GROUP BY product, part;

INSERT INTO holds VALUES
    ('bicycle', 'wheel', 2), ('bicycle', 'frame', 1), ('bicycle', 'bolt', 8),
    ('wheel', 'spoke', 32), ('wheel', 'hub', 1), ('hub', 'bolt', 5), ('frame', 'tube', 3);
