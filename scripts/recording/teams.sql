CREATE TABLE member (name TEXT, team TEXT);  -- people in teams, teams in teams
CREATE TABLE granted (team TEXT, doc TEXT);

CREATE MATERIALIZED VIEW may_read AS
WITH RECURSIVE belongs (name, team) AS (
  SELECT name, team FROM member
  UNION SELECT b.name, m.team FROM belongs b JOIN member m ON m.name = b.team
)
SELECT DISTINCT name, doc FROM belongs JOIN granted USING (team);

INSERT INTO granted VALUES ('staff', 'roadmap');
INSERT INTO member VALUES ('ada', 'compilers'), ('bo', 'staff'),
  ('compilers', 'tools'), ('tools', 'compilers'), ('tools', 'staff');
