-- A bill of materials: what a product needs in all, through every level.
CREATE TABLE contains (product TEXT NOT NULL, part TEXT NOT NULL, quantity INTEGER NOT NULL);

CREATE MATERIALIZED VIEW needs AS
WITH RECURSIVE uses (product, part, quantity, depth) AS (
    SELECT product, part, quantity, 1 FROM contains
    UNION ALL
    SELECT uses.product, contains.part, uses.quantity * contains.quantity, uses.depth + 1
    FROM uses JOIN contains ON contains.product = uses.part
    WHERE uses.depth < 20
)
SELECT product, part, SUM(quantity) AS quantity FROM uses GROUP BY product, part;

INSERT INTO contains VALUES
    ('bicycle', 'wheel', 2), ('bicycle', 'frame', 1), ('bicycle', 'bolt', 8),
    ('wheel', 'spoke', 32), ('wheel', 'hub', 1), ('hub', 'bolt', 5), ('frame', 'tube', 3);
