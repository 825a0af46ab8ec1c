-- The line from the station to the park is closed.
DELETE FROM line WHERE a = 'station' AND b = 'park';
