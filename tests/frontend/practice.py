"""Views as a data engineer writes them: sessions, funnels, slowly changing dimensions, rolling sums, gaps."""

from __future__ import annotations

from collections.abc import Sequence

SETUP = """
CREATE TABLE users (uid INT, name STRING, country STRING, signup DATE, plan STRING, PRIMARY KEY (uid));
CREATE TABLE events (eid INT, uid INT, kind STRING, ts TIMESTAMP, page STRING, amount DECIMAL(10,2), PRIMARY
    KEY (eid));
CREATE TABLE orders (oid INT, uid INT, day DATE, amount DECIMAL(10,2), status STRING, PRIMARY KEY (oid));
CREATE TABLE items (oid INT, line INT, sku STRING, qty INT, price DECIMAL(10,2), PRIMARY KEY (oid, line));
CREATE TABLE products (sku STRING, category STRING, cost DECIMAL(10,2), PRIMARY KEY (sku));
CREATE TABLE prices (sku STRING, valid_from DATE, valid_to DATE, price DECIMAL(10,2), PRIMARY KEY (sku,
    valid_from));
CREATE TABLE calendar (day DATE, PRIMARY KEY (day));
CREATE TABLE emp (id INT, boss INT, salary INT, dept STRING, PRIMARY KEY (id));
INSERT INTO users VALUES
    (1,'ann','DE',DATE'2024-01-05','pro'),(2,'bob','FR',DATE'2024-02-10','free'),(3,'cy',NULL,DATE'2024-02-11',NULL),(4,'di','DE',NULL,'free');
INSERT INTO events VALUES (1,1,'visit',TIMESTAMP'2024-03-01
    10:00:00','home',NULL),(2,1,'cart',TIMESTAMP'2024-03-01
    10:05:00','shop',NULL),(3,1,'buy',TIMESTAMP'2024-03-01
    11:05:00','shop',20.00),(4,2,'visit',TIMESTAMP'2024-03-02
    09:00:00','home',NULL),(5,2,'visit',TIMESTAMP'2024-03-02
    09:10:00','help',NULL),(6,3,'buy',TIMESTAMP'2024-03-03
    00:00:00','shop',5.50),(7,1,'visit',TIMESTAMP'2024-03-05 10:00:00','home',NULL);
INSERT INTO orders VALUES
    (1,1,DATE'2024-03-01',20.00,'paid'),(2,1,DATE'2024-03-02',35.00,'paid'),(3,2,DATE'2024-03-02',10.00,'open'),(4,3,DATE'2023-03-01',7.00,'paid'),(5,1,DATE'2023-03-05',9.99,'paid'),(6,NULL,DATE'2024-04-01',1.00,'paid');
INSERT INTO items VALUES
    (1,1,'A',2,5.00),(1,2,'B',1,10.00),(2,1,'A',7,5.00),(3,1,'C',1,10.00),(4,1,'B',1,7.00),(5,1,'Z',1,9.99);
INSERT INTO products VALUES ('A','toys',2.00),('B','toys',4.00),('C','books',6.00);
INSERT INTO prices VALUES
    ('A',DATE'2023-01-01',DATE'2024-03-01',5.00),('A',DATE'2024-03-02',NULL,5.50),('B',DATE'2023-01-01',NULL,10.00);
INSERT INTO calendar VALUES (DATE'2024-03-01'),(DATE'2024-03-02'),(DATE'2024-03-03'),(DATE'2024-03-04');
INSERT INTO emp VALUES (1,NULL,100,'x'),(2,1,80,'x'),(3,1,120,'y'),(4,2,70,'y')
"""

VIEWS = {
    "sessions": """
        WITH g AS (SELECT eid, uid, ts, CASE WHEN LAG(ts) OVER (PARTITION BY uid ORDER BY ts, eid) IS
        NULL OR ts > LAG(ts) OVER (PARTITION BY uid ORDER BY ts, eid) + INTERVAL 30 MINUTES THEN 1 ELSE
        0 END AS is_new FROM events), s AS (SELECT eid, uid, ts, SUM(is_new) OVER (PARTITION BY uid
        ORDER BY ts, eid ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS sid FROM g) SELECT uid,
        sid, MIN(ts) AS started, MAX(ts) AS ended, COUNT(*) AS n FROM s GROUP BY uid, sid
    """,
    "funnel": """
        SELECT u.country, COUNT(DISTINCT u.uid) AS users, COUNT(DISTINCT CASE WHEN e.kind='visit' THEN
        e.uid END) AS visited, COUNT(DISTINCT CASE WHEN e.kind='cart' THEN e.uid END) AS carted,
        COUNT(DISTINCT CASE WHEN e.kind='buy' THEN e.uid END) AS bought FROM users u LEFT JOIN events e
        ON e.uid=u.uid GROUP BY u.country
    """,
    "funnel_order": """
        SELECT v.uid, MIN(b.ts) AS first_buy FROM events v JOIN events b ON b.uid = v.uid AND
        b.kind='buy' AND b.ts >= v.ts WHERE v.kind='visit' GROUP BY v.uid
    """,
    "scd2": """
        SELECT o.oid, i.sku, o.day, p.price FROM orders o JOIN items i ON i.oid=o.oid JOIN prices p ON
        p.sku=i.sku AND o.day BETWEEN p.valid_from AND COALESCE(p.valid_to, DATE'9999-12-31')
    """,
    "top_n": """
        SELECT * FROM (SELECT category, sku, rev, RANK() OVER (PARTITION BY category ORDER BY rev DESC)
        AS rk FROM (SELECT p.category, i.sku, SUM(i.qty*i.price) AS rev FROM items i JOIN products p ON
        p.sku=i.sku GROUP BY p.category, i.sku) t) q WHERE rk <= 2
    """,
    "rolling7": """
        SELECT day, SUM(rev) OVER (ORDER BY day RANGE BETWEEN INTERVAL 6 DAYS PRECEDING AND CURRENT ROW)
        AS r7 FROM (SELECT day, SUM(amount) AS rev FROM orders GROUP BY day) d
    """,
    "rolling_rows": """
        SELECT day, AVG(rev) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS r7 FROM
        (SELECT day, SUM(amount) AS rev FROM orders GROUP BY day) d
    """,
    "rolling_join": """
        SELECT c.day, COALESCE(SUM(o.amount),0) AS r7 FROM calendar c LEFT JOIN orders o ON o.day >
        DATE_SUB(c.day, 7) AND o.day <= c.day GROUP BY c.day
    """,
    "yoy": """
        WITH m AS (SELECT YEAR(day) AS y, MONTH(day) AS mo, SUM(amount) AS rev FROM orders GROUP BY
        YEAR(day), MONTH(day)) SELECT y, mo, rev, LAG(rev) OVER (PARTITION BY mo ORDER BY y) AS
        last_year, ROUND(100 * (rev - LAG(rev) OVER (PARTITION BY mo ORDER BY y)) / LAG(rev) OVER
        (PARTITION BY mo ORDER BY y), 1) AS pct FROM m
    """,
    "pivot": """
        SELECT uid, SUM(CASE WHEN status='paid' THEN amount ELSE 0 END) AS paid, SUM(CASE WHEN
        status='open' THEN amount END) AS open, COUNT(CASE WHEN status='paid' THEN 1 END) AS n FROM
        orders GROUP BY uid
    """,
    "dedup": """
        SELECT eid, uid, kind, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY uid, kind ORDER BY ts
        DESC, eid DESC) AS rn FROM events) t WHERE rn = 1
    """,
    "islands": """
        SELECT uid, MIN(day) AS from_day, MAX(day) AS to_day, COUNT(*) AS n FROM (SELECT uid, day,
        DATE_SUB(day, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY day)) AS grp FROM (SELECT DISTINCT
        uid, day FROM orders) d) t GROUP BY uid, grp
    """,
    "orphans": """
        SELECT i.oid, i.line, i.sku FROM items i LEFT ANTI JOIN products p ON p.sku=i.sku
    """,
    "orphans2": """
        SELECT i.oid, i.sku FROM items i LEFT JOIN products p ON p.sku=i.sku WHERE p.sku IS NULL
    """,
    "quality": """
        SELECT 'orders without user' AS test, COUNT(*) AS bad FROM orders o WHERE NOT EXISTS (SELECT 1
        FROM users u WHERE u.uid=o.uid) UNION ALL SELECT 'negative', COUNT(*) FROM items WHERE qty < 0
        UNION ALL SELECT 'dup names', COUNT(*) FROM (SELECT name FROM users GROUP BY name HAVING
        COUNT(*) > 1) d
    """,
    "cohort": """
        SELECT DATE_TRUNC('MONTH', u.signup) AS cohort, DATEDIFF(o.day, u.signup) DIV 30 AS age,
        COUNT(DISTINCT u.uid) AS n FROM users u JOIN orders o ON o.uid=u.uid GROUP BY
        DATE_TRUNC('MONTH', u.signup), DATEDIFF(o.day, u.signup) DIV 30
    """,
    "ltv": """
        SELECT u.uid, u.name, COALESCE(SUM(o.amount),0) AS ltv, COUNT(o.oid) AS n, MAX(o.day) AS
        last_day FROM users u LEFT JOIN orders o ON o.uid=u.uid AND o.status='paid' GROUP BY u.uid,
        u.name
    """,
    "share": """
        SELECT category, rev, ROUND(rev / SUM(rev) OVER () * 100, 2) AS pct FROM (SELECT p.category,
        SUM(i.qty*i.price) AS rev FROM items i JOIN products p USING (sku) GROUP BY p.category) t
    """,
    "running": """
        SELECT uid, oid, day, SUM(amount) OVER (PARTITION BY uid ORDER BY day, oid) AS run FROM orders
    """,
    "first_last": """
        SELECT DISTINCT uid, FIRST_VALUE(amount) OVER (PARTITION BY uid ORDER BY day, oid) AS f,
        LAST_VALUE(amount) OVER (PARTITION BY uid ORDER BY day, oid ROWS BETWEEN UNBOUNDED PRECEDING AND
        UNBOUNDED FOLLOWING) AS l FROM orders
    """,
    "above_avg": """
        SELECT e.id, e.salary FROM emp e WHERE e.salary > (SELECT AVG(x.salary) FROM emp x WHERE
        x.dept=e.dept)
    """,
    "manager": """
        SELECT e.id, m.id AS boss, e.salary - m.salary AS diff FROM emp e LEFT JOIN emp m ON e.boss=m.id
    """,
    "nth": """
        SELECT DISTINCT salary FROM emp ORDER BY salary DESC LIMIT 1 OFFSET 1
    """,
    "basket": """
        SELECT a.sku AS s1, b.sku AS s2, COUNT(*) AS n FROM items a JOIN items b ON a.oid=b.oid AND
        a.sku < b.sku GROUP BY a.sku, b.sku HAVING COUNT(*) >= 1
    """,
    "last_event": """
        SELECT u.uid, e.kind, e.ts FROM users u JOIN events e ON e.uid=u.uid WHERE e.ts = (SELECT
        MAX(x.ts) FROM events x WHERE x.uid=u.uid)
    """,
    "gap": """
        SELECT uid, eid, ts, DATEDIFF(ts, LAG(ts) OVER (PARTITION BY uid ORDER BY ts, eid)) AS days FROM
        events
    """,
    "hourly": """
        SELECT DATE_TRUNC('HOUR', ts) AS h, kind, COUNT(*) AS n, SUM(amount) AS a FROM events GROUP BY
        1, 2
    """,
    "rollup": """
        SELECT COALESCE(country,'?') AS c, COALESCE(plan,'all') AS p, COUNT(*) AS n, GROUPING(plan) AS
        gp FROM users GROUP BY ROLLUP (country, plan)
    """,
    "filter_agg": """
        SELECT page, COUNT(*) FILTER (WHERE kind='visit') AS v, AVG(amount) FILTER (WHERE kind='buy') AS
        a FROM events GROUP BY page
    """,
    "fill": """
        SELECT c.day, u.uid, COALESCE(o.n, 0) AS n FROM calendar c CROSS JOIN users u LEFT JOIN (SELECT
        uid, day, COUNT(*) AS n FROM orders GROUP BY uid, day) o ON o.day=c.day AND o.uid=u.uid
    """,
    "locf": """
        SELECT eid, uid, LAST_VALUE(amount, true) OVER (PARTITION BY uid ORDER BY ts, eid) AS
        last_amount FROM events
    """,
    "locf2": """
        SELECT eid, uid, LAST_VALUE(amount) IGNORE NULLS OVER (PARTITION BY uid ORDER BY ts, eid) AS
        last_amount FROM events
    """,
    "ratio": """
        SELECT uid, SUM(CASE WHEN status='paid' THEN 1 ELSE 0 END) / COUNT(*) AS rate,
        TRY_DIVIDE(SUM(amount), COUNT(oid)) AS t FROM orders GROUP BY uid
    """,
    "exists_both": """
        SELECT uid FROM users WHERE uid IN (SELECT uid FROM orders WHERE status='paid') AND uid NOT IN
        (SELECT uid FROM orders WHERE status='open' AND uid IS NOT NULL)
    """,
    "changes": """
        SELECT uid, oid, status, LEAD(status) OVER (PARTITION BY uid ORDER BY day, oid) AS nxt FROM
        orders QUALIFY status <> LEAD(status) OVER (PARTITION BY uid ORDER BY day, oid)
    """,
    "union_types": """
        SELECT uid, day AS d, 'order' AS src FROM orders UNION ALL SELECT uid, CAST(ts AS DATE), 'event'
        FROM events
    """,
    "asof": """
        SELECT o.oid, (SELECT p.price FROM prices p WHERE p.sku = 'A' AND p.valid_from <= o.day ORDER BY
        p.valid_from DESC LIMIT 1) AS price FROM orders o
    """,
    "case_order": """
        SELECT uid, MAX(CASE status WHEN 'paid' THEN 2 WHEN 'open' THEN 1 ELSE 0 END) AS s FROM orders
        GROUP BY uid
    """,
    "lateral_alias": """
        SELECT amount * 2 AS dbl, dbl + 1 AS more FROM orders
    """,
    "ts_diff": """
        SELECT eid, TIMESTAMPDIFF(MINUTE, TIMESTAMP'2024-03-01 00:00:00', ts) AS m FROM events
    """,
    "values": """
        SELECT o.oid, v.w FROM orders o JOIN (VALUES ('paid', 1), ('open', 2)) AS v(status, w) ON
        o.status = v.status
    """,
}

BATCHES: Sequence[Sequence[str]] = (
    (
        "INSERT INTO orders VALUES (7,2,DATE'2024-03-03',50.00,'paid')",
        "UPDATE orders SET status='paid' WHERE oid=3",
        "DELETE FROM items WHERE oid=4",
    ),
    (
        "UPDATE events SET ts = ts + INTERVAL 1 HOUR WHERE uid=1 AND kind='cart'",
        "INSERT INTO prices VALUES ('A',DATE'2025-01-01',NULL,6.00)",
        "UPDATE prices SET valid_to=DATE'2024-12-31' WHERE sku='A' AND valid_from=DATE'2024-03-02'",
        "DELETE FROM users WHERE uid=3",
    ),
    (
        "UPDATE orders SET uid=NULL WHERE oid=1",
        "INSERT INTO events VALUES (8,4,'visit',TIMESTAMP'2024-03-06 10:00:00',NULL,NULL)",
        "UPDATE emp SET salary=salary+30 WHERE id=4",
        "DELETE FROM products WHERE sku='B'",
        "UPDATE users SET plan='pro'",
    ),
)
