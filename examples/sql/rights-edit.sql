-- Bo becomes a compiler engineer, and finance loses the plans.
BEGIN;
UPDATE member SET team = 'compilers' WHERE name = 'bo';
INSERT INTO denied VALUES ('finance', 'plans', 'read');
COMMIT;
SELECT name, item, may FROM rights ORDER BY name, item, may;
