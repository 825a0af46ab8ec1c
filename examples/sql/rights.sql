-- Access rights: groups in groups, folders in folders, grants, and denials that win.
CREATE TABLE member (name TEXT NOT NULL, team TEXT NOT NULL, PRIMARY KEY (name, team));
CREATE TABLE inside (item TEXT PRIMARY KEY, folder TEXT NOT NULL);
CREATE TABLE person (name TEXT PRIMARY KEY);
CREATE TABLE granted (team TEXT NOT NULL, item TEXT NOT NULL, may TEXT NOT NULL);
CREATE TABLE denied (team TEXT NOT NULL, item TEXT NOT NULL, may TEXT NOT NULL);

CREATE MATERIALIZED VIEW belongs AS
WITH RECURSIVE belongs (name, team) AS (
    SELECT name, name FROM person
    UNION
    SELECT belongs.name, member.team FROM belongs JOIN member ON member.name = belongs.team
)
SELECT * FROM belongs;

CREATE MATERIALIZED VIEW covers AS
WITH RECURSIVE covers (folder, item) AS (
    SELECT folder, item FROM inside
    UNION
    SELECT covers.folder, inside.item FROM covers JOIN inside ON inside.folder = covers.item
)
SELECT folder, item FROM covers UNION SELECT item, item FROM inside;

CREATE MATERIALIZED VIEW rights AS
SELECT DISTINCT b.name, c.item, g.may
FROM belongs b
JOIN granted g ON g.team = b.team
JOIN covers c ON c.folder = g.item
WHERE NOT EXISTS (
    SELECT * FROM denied d
    JOIN belongs x ON x.team = d.team
    JOIN covers y ON y.folder = d.item
    WHERE x.name = b.name AND y.item = c.item AND d.may = g.may
);

BEGIN;
INSERT INTO person VALUES ('ada'), ('bo'), ('chen');
INSERT INTO member VALUES ('ada', 'compilers'), ('bo', 'interns'), ('chen', 'finance'),
    ('compilers', 'engineering'), ('interns', 'engineering');
INSERT INTO inside VALUES ('plans', 'all'), ('roadmap', 'plans'), ('salaries', 'all');
INSERT INTO granted VALUES ('engineering', 'plans', 'read'), ('compilers', 'roadmap', 'write'),
    ('finance', 'all', 'read');
INSERT INTO denied VALUES ('interns', 'roadmap', 'read');
COMMIT;
