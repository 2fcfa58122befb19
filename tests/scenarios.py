"""A fixed list of tables, views and batches that every engine must keep exactly; new bugs add to it."""

from __future__ import annotations

TABLES = (
    "CREATE TABLE parts (pid STRING, price DECIMAL(10,2), weight DOUBLE, PRIMARY KEY (pid))",
    "CREATE TABLE devices (did STRING, category STRING, released DATE, PRIMARY KEY (did))",
    "CREATE TABLE devices_parts (did STRING, pid STRING, qty INT, PRIMARY KEY (did, pid))",
    "CREATE TABLE orders (oid BIGINT, did STRING, units SMALLINT, total DECIMAL(12,4), paid BOOLEAN, "
    "at TIMESTAMP, note STRING, PRIMARY KEY (oid))",
)

START = (
    "INSERT INTO parts VALUES ('P1', 10.00, 1.5), ('P2', 20.50, 0.25), ('P3', NULL, 3.0), "
    "('P4', 7.77, NULL), ('P5', 0.01, -1.0)",
    "INSERT INTO devices VALUES ('D1', 'phone', DATE '2024-01-01'), ('D2', 'phone', NULL), "
    "('D3', 'tablet', DATE '2024-02-29'), ('D4', NULL, DATE '2025-05-05'), ('D5', 'watch', NULL)",
    "INSERT INTO devices_parts VALUES ('D1', 'P1', 1), ('D1', 'P2', 2), ('D2', 'P1', 1), ('D2', 'P3', NULL), "
    "('D3', 'P2', 3), ('D3', 'P4', 1), ('D4', 'P5', 10), ('D9', 'P1', 1)",
    "INSERT INTO orders VALUES (1, 'D1', 2, 41.0000, TRUE, TIMESTAMP '2024-03-01 10:00:00', 'gift'), "
    "(2, 'D1', 1, 10.5000, FALSE, TIMESTAMP '2024-03-02 00:00:00', NULL), "
    "(3, 'D2', NULL, NULL, NULL, NULL, ''), (4, 'D3', 5, 33.3333, TRUE, TIMESTAMP '2024-03-02 00:00:00', 'x'), "
    "(5, NULL, 1, 0.0001, FALSE, TIMESTAMP '2025-01-01 23:59:59', 'gift')",
)

VIEWS = {
    "spj": "SELECT did, pid, price FROM parts NATURAL JOIN devices_parts NATURAL JOIN devices "
    "WHERE category = 'phone'",
    "cost": "SELECT did, SUM(price) AS cost FROM parts NATURAL JOIN devices_parts NATURAL JOIN devices "
    "WHERE category = 'phone' GROUP BY did",
    "star": "SELECT * FROM devices",
    "star_join": "SELECT dp.*, p.price FROM devices_parts dp JOIN parts p ON dp.pid = p.pid",
    "no_key": "SELECT category FROM devices",
    "no_key_join": "SELECT p.price FROM parts p JOIN devices_parts dp ON p.pid = dp.pid",
    "expressions": "SELECT pid, price * 2 AS twice, price + 1 AS more, -price AS negative, "
    "COALESCE(price, 0) AS filled FROM parts",
    "across": "SELECT dp.did, dp.pid, p.price * dp.qty AS amount FROM parts p JOIN devices_parts dp "
    "ON p.pid = dp.pid",
    "three_valued": "SELECT did FROM devices WHERE NOT (category = 'phone' OR released > DATE '2024-01-31')",
    "in_list": "SELECT did, category FROM devices WHERE category IN ('phone', 'watch')",
    "not_in_list": "SELECT did, category FROM devices WHERE category NOT IN ('phone', 'watch')",
    "between": "SELECT oid, total FROM orders WHERE total BETWEEN 10 AND 41",
    "like": "SELECT oid, note FROM orders WHERE note LIKE 'g%'",
    "is_null": "SELECT oid FROM orders WHERE did IS NULL OR paid IS NOT TRUE",
    "case_when": "SELECT oid, CASE WHEN units > 1 THEN 'many' WHEN units = 1 THEN 'one' END AS size FROM orders",
    "comma": "SELECT d.did, o.oid FROM devices d, orders o WHERE d.did = o.did AND o.units > 0",
    "cross": "SELECT d.did, p.pid FROM devices d CROSS JOIN parts p WHERE d.category = 'watch'",
    "theta": "SELECT a.pid AS cheap, b.pid AS dear FROM parts a JOIN parts b ON a.price < b.price",
    "self_join": "SELECT a.did AS one, b.did AS other FROM devices a JOIN devices b "
    "ON a.category = b.category AND a.did < b.did",
    "null_safe_join": "SELECT a.did AS one, b.did AS other FROM devices a JOIN devices b "
    "ON a.category <=> b.category",
    "foreign": "SELECT o.oid, o.total, d.category FROM orders o JOIN devices d ON o.did = d.did",
    "foreign_hidden": "SELECT o.total, d.released FROM orders o JOIN devices d ON o.did = d.did",
    "by_category": "SELECT category, COUNT(*) AS n FROM devices GROUP BY category",
    "all_aggregates": "SELECT did, COUNT(*) AS n, COUNT(units) AS counted, SUM(units) AS units, "
    "AVG(units) AS mean, SUM(total) AS total, AVG(total) AS average FROM orders GROUP BY did",
    "keyless": "SELECT COUNT(*) AS n, SUM(total) AS total, AVG(total) AS average FROM orders",
    "keyless_join": "SELECT COUNT(*) AS n, SUM(p.price * dp.qty) AS worth FROM parts p "
    "JOIN devices_parts dp ON p.pid = dp.pid",
    "group_expression": "SELECT YEAR(at) AS y, SUM(units) AS units FROM orders GROUP BY YEAR(at)",
    "group_alias": "SELECT UPPER(category) AS c, COUNT(*) AS n FROM devices GROUP BY c",
    "group_ordinal": "SELECT paid, note, COUNT(*) AS n FROM orders GROUP BY 1, 2",
    "having": "SELECT did, SUM(total) AS total FROM orders GROUP BY did HAVING SUM(total) > 20",
    "over_aggregate": "SELECT category, SUM(cost) AS total, COUNT(*) AS devices FROM "
    "(SELECT dp.did, SUM(p.price * dp.qty) AS cost FROM parts p JOIN devices_parts dp ON p.pid = dp.pid "
    "GROUP BY dp.did) c JOIN devices d ON c.did = d.did GROUP BY category",
    "twice_aggregated": "SELECT n, COUNT(*) AS devices FROM (SELECT did, COUNT(*) AS n FROM devices_parts "
    "GROUP BY did) x GROUP BY n",
    "cte": "WITH phones AS (SELECT did FROM devices WHERE category = 'phone'), "
    "used AS (SELECT pid, qty FROM devices_parts JOIN phones USING (did)) "
    "SELECT pid, SUM(qty) AS qty FROM used GROUP BY pid",
    "derived_columns": "SELECT x.a, x.b FROM (SELECT did, category FROM devices) AS x (a, b) WHERE x.a > 'D1'",
    "many_to_many": "SELECT a.pid, COUNT(*) AS pairs, SUM(b.qty) AS qty FROM devices_parts a "
    "JOIN devices_parts b ON a.pid = b.pid GROUP BY a.pid",
    "doubles": "SELECT dp.did, SUM(p.weight * dp.qty) AS weight, AVG(p.weight) AS mean FROM parts p "
    "JOIN devices_parts dp ON p.pid = dp.pid GROUP BY dp.did",
    "four_way": "SELECT o.oid, p.pid, p.price * o.units AS bill FROM orders o JOIN devices d ON o.did = d.did "
    "JOIN devices_parts dp ON dp.did = d.did JOIN parts p ON p.pid = dp.pid WHERE d.category <> 'watch'",
}

BATCHES = (
    (  # values that nothing conditions on
        "UPDATE parts SET price = price + 1 WHERE pid IN ('P1', 'P2')",
        "UPDATE devices_parts SET qty = 7 WHERE pid = 'P1'",
        "UPDATE orders SET total = 12.3456, note = 'gift' WHERE oid = 2",
    ),
    (  # rows come and go, conditions flip, groups appear and vanish, both sides of a join at once
        "INSERT INTO parts VALUES ('P6', 1.00, 9.5)",
        "INSERT INTO devices_parts VALUES ('D5', 'P6', 2), ('D1', 'P6', 1)",
        "UPDATE devices SET category = 'phone' WHERE did IN ('D3', 'D4')",
        "UPDATE devices SET category = 'tablet' WHERE did = 'D2'",
        "DELETE FROM parts WHERE pid = 'P2'",
        "UPDATE orders SET did = 'D3', units = NULL WHERE oid = 1",
        "DELETE FROM orders WHERE oid = 5",
    ),
    (  # keys change, rows are deleted and come back, MERGE
        "UPDATE parts SET pid = 'P7' WHERE pid = 'P1'",
        "DELETE FROM devices WHERE did = 'D1'",
        "INSERT INTO devices VALUES ('D1', 'watch', DATE '2026-01-01')",
        "MERGE INTO parts AS t USING (SELECT 'P3' AS pid, CAST(5.55 AS DECIMAL(10,2)) AS price, "
        "CAST(2.5 AS DOUBLE) AS weight UNION ALL SELECT 'P8', CAST(8.88 AS DECIMAL(10,2)), CAST(NULL AS DOUBLE)) "
        "AS s ON t.pid = s.pid WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO orders AS t USING (SELECT 4 AS oid UNION ALL SELECT 99) AS s ON t.oid = s.oid "
        "WHEN MATCHED THEN DELETE",
        "INSERT INTO devices_parts VALUES ('D2', 'P7', 4), ('D1', 'P8', 1)",
        "INSERT INTO orders VALUES (6, 'D1', 3, 6.0000, TRUE, TIMESTAMP '2026-06-06 06:06:06', 'gift')",
    ),
    ("DELETE FROM devices_parts",),
)
