-- Orders take the buyer's number in place of the address; the birthday goes into the report.
BEGIN;
DELETE FROM made_of WHERE source = 'raw.email';
INSERT INTO made_of VALUES ('orders.who', 'raw.number'), ('monthly.ages', 'raw.birthday');
COMMIT;
