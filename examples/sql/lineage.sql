-- Lineage: what each column comes from, through every step, and who sees personal data.
CREATE TABLE made_of (part TEXT NOT NULL, source TEXT NOT NULL, PRIMARY KEY (part, source));
CREATE TABLE personal (part TEXT PRIMARY KEY);
CREATE TABLE reader (report TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (report, name));

CREATE MATERIALIZED VIEW comes_from AS
WITH RECURSIVE comes_from (part, source) AS (
    SELECT part, source FROM made_of
    UNION
    SELECT comes_from.part, made_of.source
    FROM comes_from JOIN made_of ON made_of.part = comes_from.source
)
SELECT * FROM comes_from;

CREATE MATERIALIZED VIEW sees AS
SELECT reader.name, reader.report, STRING_AGG(source, ', ' ORDER BY source) AS personal
FROM reader
JOIN comes_from ON comes_from.part LIKE reader.report || '.%'
WHERE source IN (SELECT part FROM personal)
GROUP BY reader.name, reader.report;

INSERT INTO made_of VALUES
    ('orders.who', 'raw.email'), ('orders.total', 'raw.price'), ('orders.total', 'raw.pieces'),
    ('monthly.buyers', 'orders.who'), ('monthly.sum', 'orders.total');
INSERT INTO personal VALUES ('raw.email'), ('raw.birthday');
INSERT INTO reader VALUES ('monthly', 'ada'), ('orders', 'bo');
