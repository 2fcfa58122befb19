"""Views with every construct beyond select, project, join and group, on two small tables with nulls in them."""

from __future__ import annotations

TABLES = (
    "CREATE TABLE r (k INT, a INT, b INT, s STRING, PRIMARY KEY (k))",
    "CREATE TABLE u (k INT, a INT, c INT, PRIMARY KEY (k))",
)

START = (
    "INSERT INTO r VALUES (1, 1, 10, 'x'), (2, 1, 20, 'y'), (3, 2, NULL, 'x'), (4, NULL, 5, NULL)",
    "INSERT INTO u VALUES (1, 1, 7), (2, 3, 8), (3, NULL, 9)",
)

VIEWS = {
    "distinct": "SELECT DISTINCT a, s FROM r",
    "union": "SELECT a, b FROM r UNION SELECT a, c FROM u",
    "unionall": "SELECT a, b FROM r UNION ALL SELECT a, c FROM u",
    "intersect": "SELECT a FROM r INTERSECT SELECT a FROM u",
    "except": "SELECT a FROM r EXCEPT SELECT a FROM u",
    "exceptall": "SELECT a FROM r EXCEPT ALL SELECT a FROM u",
    "intersectall": "SELECT a FROM r INTERSECT ALL SELECT a FROM u",
    "left": "SELECT r.k, r.b, u.c FROM r LEFT JOIN u ON r.a = u.a",
    "right": "SELECT r.k, r.b, u.c FROM r RIGHT JOIN u ON r.a = u.a AND r.b > 10",
    "full": "SELECT r.k, r.b, u.c FROM r FULL JOIN u ON r.a = u.a",
    "fullusing": "SELECT a, r.b, u.c FROM r FULL JOIN u USING (a)",
    "leftagg": "SELECT r.a, COUNT(u.k) AS n, SUM(u.c) AS s FROM r LEFT JOIN u ON r.a = u.a GROUP BY r.a",
    "overagg": "SELECT r.k, g.n FROM r LEFT JOIN (SELECT a, COUNT(*) AS n FROM u GROUP BY a) AS g ON r.a <=>"
    " g.a",
    "exists": "SELECT k, a FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.a = r.a)",
    "notexists": "SELECT k, a FROM r WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = r.a AND u.c > 7)",
    "in": "SELECT k, a FROM r WHERE a IN (SELECT a FROM u)",
    "notin": "SELECT k, a FROM r WHERE a NOT IN (SELECT a FROM u WHERE u.c < 9)",
    "inor": "SELECT k, a FROM r WHERE a IN (SELECT a FROM u) OR b > 10",
    "insel": "SELECT k, a IN (SELECT a FROM u) AS m, a NOT IN (SELECT a FROM u) AS nm FROM r",
    "any": "SELECT k FROM r WHERE b > ANY (SELECT c FROM u)",
    "all": "SELECT k FROM r WHERE b > ALL (SELECT c FROM u WHERE u.a = r.a)",
    "scalar": "SELECT k, (SELECT MAX(c) FROM u) AS m FROM r",
    "scalarc": "SELECT k, (SELECT COUNT(*) FROM u WHERE u.a = r.a) AS m, (SELECT SUM(c) FROM u WHERE u.a = "
    "r.a) AS s FROM r",
    "scalarw": "SELECT k FROM r WHERE b > (SELECT AVG(c) FROM u WHERE u.a = r.a)",
    "scalar1": "SELECT k, (SELECT c FROM u WHERE u.k = r.k) AS m FROM r",
    "scalarh": "SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING SUM(b) > (SELECT MIN(c) FROM u)",
    "minmax": "SELECT a, MIN(b) AS lo, MAX(b) AS hi, COUNT(DISTINCT s) AS d FROM r GROUP BY a",
    "filter": "SELECT a, SUM(b) FILTER (WHERE s = 'x') AS x, COUNT(*) FILTER (WHERE b > 5) AS n FROM r "
    "GROUP BY a",
    "stddev": "SELECT a, STDDEV(b) AS sd, VAR_POP(b) AS v, MEDIAN(b) AS m, BOOL_AND(b > 5) AS ba, BOOL_OR(b"
    " > 5) AS bo FROM r GROUP BY a",
    "rollup": "SELECT a, s, COUNT(*) AS n, SUM(b) AS t FROM r GROUP BY ROLLUP (a, s) HAVING COUNT(*) > 0",
    "cube": "SELECT a, s, GROUPING(a) AS ga, GROUPING_ID(a, s) AS gi, COUNT(*) AS n FROM r GROUP BY CUBE "
    "(a, s) HAVING COUNT(*) > 0",
    "window": "SELECT k, a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, k) AS rn, RANK() OVER (ORDER BY "
    "b) AS rk, SUM(b) OVER (PARTITION BY a) AS sb, AVG(b) OVER (PARTITION BY a ORDER BY k) AS av,"
    " LAG(b) OVER (ORDER BY k) AS lg FROM r",
    "qualify": "SELECT k, a, b FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC, k) = 1",
    "aggwin": "SELECT a, SUM(b) AS s, RANK() OVER (ORDER BY SUM(b) DESC) AS rk FROM r GROUP BY a",
    "limit": "SELECT k, b FROM r ORDER BY b DESC, k LIMIT 2",
    "limitagg": "SELECT a, SUM(b) AS s FROM r GROUP BY a ORDER BY s DESC, a LIMIT 2",
    "limitoff": "SELECT k FROM r ORDER BY b, k LIMIT 2 OFFSET 1",
    "semi": "SELECT * FROM r LEFT SEMI JOIN u ON r.a = u.a",
    "anti": "SELECT * FROM r LEFT ANTI JOIN u ON r.a = u.a",
    "lateral": "SELECT r.k, t.d FROM r, LATERAL (SELECT r.a + r.b AS d) AS t",
    "lateral2": "SELECT r.k, t.c FROM r, LATERAL (SELECT u.c FROM u WHERE u.a = r.a) AS t",
    "nested": "SELECT k FROM r WHERE a IN (SELECT a FROM u WHERE c > (SELECT MIN(b) FROM r))",
    # padded rows are null in every column, and nulls are one partition, and one group
    "padded_partition": "SELECT o, p, ROW_NUMBER() OVER (PARTITION BY o, p ORDER BY o) AS n FROM "
    "(SELECT y.b AS o, y.k AS p FROM r AS x FULL JOIN r AS y ON x.a = y.b) AS q",
    "padded_except": "SELECT x.b AS o, x.k AS p FROM r AS x RIGHT JOIN (SELECT COUNT(*) AS n FROM r) AS c "
    "ON x.a IS NOT NULL EXCEPT SELECT y.b, y.k FROM r AS x FULL JOIN r AS y ON x.a = y.b",
    "padded_intersect": "SELECT y.b AS o, y.k AS p FROM r AS x FULL JOIN r AS y ON x.a = y.b "
    "INTERSECT ALL SELECT y.b, y.k FROM r AS x FULL JOIN r AS y ON x.a = y.b",
    "constant_key": "SELECT DISTINCT 2 AS two FROM r",
    "constant_order": "SELECT 0.5 AS half, k FROM r ORDER BY half, k LIMIT 2",
    "constant_window": "SELECT k, RANK() OVER (PARTITION BY 1 ORDER BY 2, k) AS n FROM r",
}

BATCHES = (
    ("INSERT INTO u VALUES (4, 2, 11), (5, 1, 12)",),
    ("UPDATE r SET b = b + 1 WHERE a = 1",),
    ("UPDATE u SET a = 1 WHERE k = 2", "DELETE FROM r WHERE k = 1"),
    ("DELETE FROM u WHERE a = 1",),
    (
        "INSERT INTO r VALUES (7, 3, 100, 'z'), (8, 2, 3, 'q')",
        "UPDATE u SET c = 0 WHERE k = 3",
        "UPDATE r SET a = 2 WHERE k = 4",
    ),
    ("UPDATE u SET a = NULL",),
    ("DELETE FROM u",),
    ("DELETE FROM r", "INSERT INTO u VALUES (1, 1, 1)"),
    ("INSERT INTO r VALUES (1, 1, 1, 'x'), (2, 1, 2, 'x')",),
)
