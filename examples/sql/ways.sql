-- Shortest ways: minutes between stations, up to an hour and a half, whichever way round.
CREATE TABLE line (a TEXT NOT NULL, b TEXT NOT NULL, minutes INTEGER NOT NULL, PRIMARY KEY (a, b));

CREATE MATERIALIZED VIEW shortest AS
WITH RECURSIVE hop (a, b, minutes) AS (
    SELECT a, b, minutes FROM line UNION SELECT b, a, minutes FROM line
), way (a, b, minutes) AS (
    SELECT a, b, minutes FROM hop
    UNION
    SELECT way.a, hop.b, way.minutes + hop.minutes
    FROM way JOIN hop ON hop.a = way.b
    WHERE way.minutes + hop.minutes <= 90 AND hop.b <> way.a
)
SELECT a, b, MIN(minutes) AS minutes FROM way WHERE a < b GROUP BY a, b;

INSERT INTO line VALUES
    ('harbour', 'market', 7), ('market', 'station', 5), ('station', 'park', 20),
    ('harbour', 'park', 40), ('park', 'zoo', 4);
