-- what was sold, with its price
CREATE TEMPORARY VIEW paid AS
SELECT order_id, customer_id, day FROM orders WHERE status = 'paid';

CREATE MATERIALIZED VIEW sales
COMMENT 'one row for each line of a paid order'
AS SELECT p.order_id, p.customer_id, l.line, l.product, l.quantity * l.price AS amount
FROM paid p JOIN lines l ON p.order_id = l.order_id;

CREATE MATERIALIZED VIEW product_sales
TBLPROPERTIES ('viewkeep.refresh_policy' = 'incremental')
AS SELECT product, SUM(amount) AS amount, COUNT(*) AS n
FROM sales
GROUP BY product;
