\set id random(1, 1000)
UPDATE orders SET state = state WHERE id = :id;
SELECT state FROM orders WHERE id = :id;
