-- An organisation chart: who is under whom, and what each manager's people cost in all.
CREATE TABLE employee (id INTEGER PRIMARY KEY, name TEXT NOT NULL, boss INTEGER, salary DECIMAL(9, 2));

CREATE MATERIALIZED VIEW under AS
WITH RECURSIVE under (boss, id, levels) AS (
    SELECT boss, id, 1 FROM employee WHERE boss IS NOT NULL
    UNION
    SELECT under.boss, employee.id, under.levels + 1
    FROM under JOIN employee ON employee.boss = under.id
    WHERE under.levels < 20
)
SELECT * FROM under;

CREATE MATERIALIZED VIEW team AS
SELECT boss.id, boss.name, COUNT(*) AS people, SUM(one.salary) AS salaries, MAX(under.levels) AS levels
FROM under
JOIN employee boss ON boss.id = under.boss
JOIN employee one ON one.id = under.id
GROUP BY boss.id, boss.name;

INSERT INTO employee VALUES
    (1, 'ada', NULL, 9000.00), (2, 'bo', 1, 7000.00), (3, 'chen', 1, 6500.50),
    (4, 'dee', 2, 5000.00), (5, 'eve', 2, NULL), (6, 'fay', 4, 3000.25);
