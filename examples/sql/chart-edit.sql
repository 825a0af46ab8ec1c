-- Dee's people and she herself go to Chen, and Eve's salary becomes known.
BEGIN;
UPDATE employee SET boss = 3 WHERE name = 'dee';
UPDATE employee SET salary = 4000 WHERE name = 'eve';
COMMIT;
