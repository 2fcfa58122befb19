"""Views with every construct of the language, on small tables with nulls in them.

The rows of `CONSTRUCTS` are those of docs/reference/support.md, which a test compares with what happens.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Construct:
    """A row of the support matrix, and views that have it."""

    kind: str
    name: str
    views: tuple[str, ...]


TABLES = (
    "CREATE TABLE r (k INT, a INT, b INT, s STRING, PRIMARY KEY (k))",
    "CREATE TABLE u (k INT, a INT, c INT, PRIMARY KEY (k))",
    "CREATE TABLE w (k INT, s STRING, b INT, day DATE, price DECIMAL(8,2), ratio DOUBLE, PRIMARY KEY (k))",
)

START = (
    "INSERT INTO r VALUES (1, 1, 10, 'x'), (2, 1, 20, 'y'), (3, 2, NULL, 'x'), (4, NULL, 5, NULL)",
    "INSERT INTO u VALUES (1, 1, 7), (2, 3, 8), (3, NULL, 9)",
    "INSERT INTO w VALUES (1, 'abc', 3, DATE '2024-01-31', 1.50, 0.5), (2, 'a', -4, DATE '2024-02-29', 2.25, 1.25), "
    "(3, NULL, 5, NULL, NULL, NULL), (4, '12', NULL, DATE '2025-12-31', -1.50, 2.5)",
)

VIEWS = {
    "inner": "SELECT r.k, u.k AS uk, r.b, u.c FROM r JOIN u ON r.a = u.a WHERE r.b > 5",
    "using": "SELECT k, r.b, u.c FROM r JOIN u USING (k)",
    "theta": "SELECT x.k, y.k AS yk FROM r AS x, r AS y WHERE x.b < y.b",
    "inneragg": "SELECT r.s, COUNT(*) AS n, SUM(u.c) AS c FROM r JOIN u ON r.a = u.a GROUP BY r.s",
    "left": "SELECT r.k, r.b, u.c FROM r LEFT JOIN u ON r.a = u.a",
    "right": "SELECT r.k, r.b, u.c FROM r RIGHT JOIN u ON r.a = u.a AND r.b > 10",
    "full": "SELECT r.k, r.b, u.c FROM r FULL JOIN u ON r.a = u.a",
    "fullusing": "SELECT a, r.b, u.c FROM r FULL JOIN u USING (a)",
    "chain": "SELECT r.k, u.c, x.b FROM r LEFT JOIN u ON r.a = u.a LEFT JOIN r AS x ON x.k = u.k",
    "fullchain": "SELECT r.k, u.k AS uk, x.k AS xk FROM r FULL JOIN u ON r.a = u.a FULL JOIN r AS x ON x.a = u.a AND x.b > 10",
    "mixed": "SELECT r.k, u.c, x.b FROM r JOIN u ON r.a = u.a RIGHT JOIN r AS x ON x.k = r.k",
    "bracketed": "SELECT r.k, u.c, x.b FROM r LEFT JOIN (u JOIN r AS x ON x.k = u.k) ON r.a = u.a",
    "lefttheta": "SELECT r.k, u.k AS uk FROM r LEFT JOIN u ON r.b > u.c OR r.a IS NULL",
    "fulltheta": "SELECT r.k, u.k AS uk, u.c FROM r FULL JOIN u ON r.b < u.c",
    "leftagg": "SELECT r.a, COUNT(u.k) AS n, SUM(u.c) AS s FROM r LEFT JOIN u ON r.a = u.a GROUP BY r.a",
    "overagg": "SELECT r.k, g.n FROM r LEFT JOIN (SELECT a, COUNT(*) AS n FROM u GROUP BY a) AS g ON r.a <=> g.a",
    "fullagg": "SELECT u.c, COUNT(r.k) AS n, MAX(r.b) AS m FROM r FULL JOIN u ON r.a = u.a GROUP BY u.c",
    "semi": "SELECT * FROM r LEFT SEMI JOIN u ON r.a = u.a",
    "anti": "SELECT * FROM r LEFT ANTI JOIN u ON r.a = u.a",
    "antitheta": "SELECT r.k FROM r LEFT ANTI JOIN u ON r.b < u.c",
    "lateral": "SELECT r.k, t.d FROM r, LATERAL (SELECT r.a + r.b AS d) AS t",
    "lateral2": "SELECT r.k, t.c FROM r, LATERAL (SELECT u.c FROM u WHERE u.a = r.a) AS t",
    "padded_partition": "SELECT o, p, ROW_NUMBER() OVER (PARTITION BY o, p ORDER BY o) AS n FROM (SELECT y.b AS o, y.k AS p FROM r AS x FULL JOIN r AS y ON x.a = y.b) AS q",
    "padded_except": "SELECT x.b AS o, x.k AS p FROM r AS x RIGHT JOIN (SELECT COUNT(*) AS n FROM r) AS c ON x.a IS NOT NULL EXCEPT SELECT y.b, y.k FROM r AS x FULL JOIN r AS y ON x.a = y.b",
    "padded_intersect": "SELECT y.b AS o, y.k AS p FROM r AS x FULL JOIN r AS y ON x.a = y.b INTERSECT ALL SELECT y.b, y.k FROM r AS x FULL JOIN r AS y ON x.a = y.b",
    "exists": "SELECT k, a FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.a = r.a)",
    "notexists": "SELECT k, a FROM r WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = r.a AND u.c > 7)",
    "in": "SELECT k, a FROM r WHERE a IN (SELECT a FROM u)",
    "notin": "SELECT k, a FROM r WHERE a NOT IN (SELECT a FROM u WHERE u.c < 9)",
    "any": "SELECT k FROM r WHERE b > ANY (SELECT c FROM u)",
    "all": "SELECT k FROM r WHERE b > ALL (SELECT c FROM u WHERE u.a = r.a)",
    "inor": "SELECT k, a FROM r WHERE a IN (SELECT a FROM u) OR b > 10",
    "existsnot": "SELECT k FROM r WHERE NOT (b > 10 AND EXISTS (SELECT 1 FROM u WHERE u.a = r.a))",
    "existscase": "SELECT k, CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.a = r.a) THEN b ELSE 0 END AS v FROM r",
    "insel": "SELECT k, a IN (SELECT a FROM u) AS m, a NOT IN (SELECT a FROM u) AS nm FROM r",
    "scalar": "SELECT k, (SELECT MAX(c) FROM u) AS m FROM r",
    "scalarc": "SELECT k, (SELECT COUNT(*) FROM u WHERE u.a = r.a) AS m, (SELECT SUM(c) FROM u WHERE u.a = r.a) AS s FROM r",
    "scalar1": "SELECT k, (SELECT c FROM u WHERE u.k = r.k) AS m FROM r",
    "scalarw": "SELECT k FROM r WHERE b > (SELECT AVG(c) FROM u WHERE u.a = r.a)",
    "scalarwu": "SELECT k FROM r WHERE b >= (SELECT AVG(c) FROM u)",
    "scalarh": "SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING SUM(b) > (SELECT MIN(c) FROM u)",
    "inh": "SELECT a, COUNT(*) AS n FROM r GROUP BY a HAVING a IN (SELECT a FROM u)",
    "onsub": "SELECT r.k, u.k AS uk FROM r JOIN u ON r.a = u.a AND (r.b IN (SELECT c FROM u) OR u.c = (SELECT MAX(c) FROM u))",
    "onleft": "SELECT r.k, u.k AS uk FROM r LEFT JOIN u ON r.a = u.a AND u.c NOT IN (SELECT x.b FROM r AS x)",
    "onfull": "SELECT r.k, u.k AS uk FROM r FULL JOIN u ON r.a = u.a AND EXISTS (SELECT 1 FROM u AS x WHERE x.c = r.b)",
    "onanti": "SELECT r.k FROM r ANTI JOIN u ON r.a = u.a AND u.c > (SELECT MIN(x.b) FROM r AS x WHERE x.a = u.a)",
    "onboth": "SELECT r.k, u.k AS uk FROM r LEFT JOIN u ON r.a = u.a AND EXISTS (SELECT 1 FROM u AS x WHERE x.a = r.b OR x.c < u.c)",
    "onbothfull": "SELECT r.k, u.k AS uk FROM r FULL JOIN u ON r.a = u.a AND r.b NOT IN (SELECT x.c FROM u AS x WHERE x.k <> u.k)",
    "nested": "SELECT k FROM r WHERE a IN (SELECT a FROM u WHERE c > (SELECT MIN(b) FROM r))",
    "unionall": "SELECT a, b FROM r UNION ALL SELECT a, c FROM u",
    "union": "SELECT a, b FROM r UNION SELECT a, c FROM u",
    "intersect": "SELECT a FROM r INTERSECT SELECT a FROM u",
    "intersectall": "SELECT a FROM r INTERSECT ALL SELECT a FROM u",
    "except": "SELECT a FROM r EXCEPT SELECT a FROM u",
    "exceptall": "SELECT a FROM r EXCEPT ALL SELECT a FROM u",
    "setnested": "(SELECT a FROM r UNION ALL SELECT a FROM u) EXCEPT SELECT c FROM u",
    "unionagg": "SELECT a, COUNT(*) AS n FROM (SELECT a FROM r UNION ALL SELECT a FROM u) AS x GROUP BY a",
    "distinct": "SELECT DISTINCT a, s FROM r",
    "distinctjoin": "SELECT DISTINCT r.s, u.c FROM r JOIN u ON r.a = u.a",
    "constant_key": "SELECT DISTINCT 2 AS two FROM r",
    "sums": "SELECT a, SUM(b) AS s, COUNT(b) AS n, AVG(b) AS m FROM r GROUP BY a",
    "keyless": "SELECT COUNT(*) AS n, SUM(b) AS s, AVG(b) AS m FROM r",
    "minmax": "SELECT a, MIN(b) AS lo, MAX(b) AS hi, COUNT(DISTINCT s) AS d FROM r GROUP BY a",
    "minkeyless": "SELECT MIN(b) AS lo, MAX(s) AS hi FROM r",
    "sumdistinct": "SELECT a, COUNT(DISTINCT b) AS n, SUM(DISTINCT b) AS s, AVG(DISTINCT b) AS m FROM r GROUP BY a",
    "pivot": "SELECT * FROM (SELECT s, a, b FROM r) PIVOT (SUM(b) AS total, COUNT(*) AS n FOR s IN ('x', 'y' AS yy))",
    "filter": "SELECT a, SUM(b) FILTER (WHERE s = 'x') AS x, COUNT(*) FILTER (WHERE b > 5) AS n FROM r GROUP BY a",
    "cofactor": "SELECT r.s, COFACTOR(r.b, u.c) AS m FROM r JOIN u ON r.a = u.a GROUP BY r.s",
    "stddev": "SELECT a, STDDEV(b) AS sd, VAR_POP(b) AS v, COVAR_POP(b, k) AS c FROM r GROUP BY a",
    "bools": "SELECT a, BOOL_AND(b > 5) AS ba, BOOL_OR(b > 5) AS bo, COUNT_IF(b > 5) AS n FROM r GROUP BY a",
    "median": "SELECT a, MEDIAN(b) AS m FROM r GROUP BY a",
    "having": "SELECT a, SUM(b) + COUNT(*) AS s FROM r GROUP BY a HAVING SUM(b) > 10 OR MIN(s) = 'x'",
    "groupexpr": "SELECT a % 2 AS p, COALESCE(s, '-') AS s, COUNT(*) AS n FROM r GROUP BY 1, 2",
    "groupall": "SELECT s, a, SUM(b) AS t FROM r GROUP BY ALL",
    "twice": "SELECT n, COUNT(*) AS groups, SUM(t) AS t FROM (SELECT a, COUNT(*) AS n, SUM(b) AS t FROM r GROUP BY a) AS g GROUP BY n",
    "maxofsum": "SELECT MAX(t) AS m FROM (SELECT a, SUM(b) AS t FROM r GROUP BY a) AS g",
    "rollup": "SELECT a, s, COUNT(*) AS n, SUM(b) AS t FROM r GROUP BY ROLLUP (a, s) HAVING COUNT(*) > 0",
    "cube": "SELECT a, s, GROUPING(a) AS ga, GROUPING_ID(a, s) AS gi, COUNT(*) AS n FROM r GROUP BY CUBE (a, s) HAVING COUNT(*) > 0",
    "sets": "SELECT a, s, COUNT(*) AS n FROM r GROUP BY GROUPING SETS ((a, s), (s), ()) HAVING COUNT(*) > 0",
    "ranks": "SELECT k, a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, k) AS rn, DENSE_RANK() OVER (PARTITION BY s ORDER BY a) AS dr, PERCENT_RANK() OVER (PARTITION BY a ORDER BY b) AS pr, CUME_DIST() OVER (PARTITION BY a ORDER BY b) AS cd, NTILE(2) OVER (PARTITION BY a ORDER BY k) AS nt FROM r",
    "lags": "SELECT k, LAG(b) OVER (PARTITION BY a ORDER BY k) AS lg, LEAD(b, 1, 0) OVER (PARTITION BY a ORDER BY k) AS ld, FIRST_VALUE(b) OVER (PARTITION BY a ORDER BY k) AS fv, LAST_VALUE(b) OVER (PARTITION BY a ORDER BY k) AS lv, NTH_VALUE(b, 2) OVER (PARTITION BY a ORDER BY k) AS nv FROM r",
    "frames": "SELECT k, SUM(b) OVER (PARTITION BY a ORDER BY k) AS running, AVG(b) OVER (PARTITION BY a ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near, MAX(b) OVER (PARTITION BY a) AS most FROM r",
    "window": "SELECT k, a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, k) AS rn, RANK() OVER (ORDER BY b) AS rk, SUM(b) OVER (PARTITION BY a) AS sb, AVG(b) OVER (PARTITION BY a ORDER BY k) AS av, LAG(b) OVER (ORDER BY k) AS lg FROM r",
    "constant_window": "SELECT k, RANK() OVER (PARTITION BY 1 ORDER BY 2, k) AS n FROM r",
    "aggwin": "SELECT a, SUM(b) AS s, RANK() OVER (ORDER BY SUM(b) DESC) AS rk FROM r GROUP BY a",
    "joinwin": "SELECT r.k, u.k AS uk, RANK() OVER (PARTITION BY u.c ORDER BY r.b) AS rk FROM r JOIN u ON r.a = u.a",
    "qualify": "SELECT k, a, b FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC, k) = 1",
    "topk": "SELECT k, a, b FROM r QUALIFY RANK() OVER (PARTITION BY a ORDER BY b DESC) <= 2",
    "limit": "SELECT k, b FROM r ORDER BY b DESC, k LIMIT 2",
    "limitagg": "SELECT a, SUM(b) AS s FROM r GROUP BY a ORDER BY s DESC, a LIMIT 2",
    "constant_order": "SELECT 0.5 AS half, k FROM r ORDER BY half, k LIMIT 2",
    "limitoff": "SELECT k FROM r ORDER BY b, k LIMIT 2 OFFSET 1",
    "offset": "SELECT k, b FROM r ORDER BY b DESC, k OFFSET 1",
    "choices": "SELECT k, CASE WHEN b > 10 THEN 'many' WHEN b IS NULL THEN 'none' END AS c, COALESCE(b, a, 0) AS f, NULLIF(a, 1) AS n, IF(a <=> NULL, 1, 2) AS i, GREATEST(a, b) AS g FROM r WHERE NOT (b = 20) OR s LIKE 'x%'",
    "casts": "SELECT k, CAST(b AS STRING) AS t, CAST(b AS DECIMAL(10,2)) AS d, TRY_CAST(s AS INT) AS i, CAST(day AS TIMESTAMP) AS at, CAST(b > 0 AS INT) AS plus FROM w",
    "strings": "SELECT k, UPPER(s) AS u, s || '-' || CAST(k AS STRING) AS c, SUBSTRING(s, 1, 1) AS f, LENGTH(s) AS l, REPLACE(s, 'a', 'b') AS r, LPAD(s, 3, '*') AS p FROM w WHERE s RLIKE '^[a-z]+$'",
    "dates": "SELECT YEAR(day) AS y, MONTH(day) AS m, COUNT(*) AS n, MAX(DATE_ADD(day, 1)) AS next, MIN(DATEDIFF(day, DATE '2024-01-01')) AS since FROM w GROUP BY YEAR(day), MONTH(day)",
    "maths": "SELECT k, price * b AS amount, price + 1 AS more, ABS(-b) AS size, b % 3 AS rest, b DIV 2 AS half, ROUND(price, 1) AS about, price / 4 AS part FROM w",
    "money": "SELECT s, SUM(price) AS p, AVG(price) AS m, SUM(ratio) AS t FROM w GROUP BY s",
    "rowsin": "SELECT k, (a, b) = (1, 21) AS x, (a, s) <> (2, 'x') AS y FROM r WHERE (a, s) IN ((1, 'x'), (2, 'x'), (2, 'q'))",
    "python": "SELECT k, plus_one(a) AS p FROM r WHERE plus_one(b) > 6",
    "overview": "SELECT n, COUNT(*) AS groups FROM v_leftagg GROUP BY n",
    "overviews": "SELECT x.a, x.n, y.hi FROM v_leftagg AS x JOIN v_minmax AS y ON x.a <=> y.a WHERE x.n > 0",
}

# what `plus_one` in a view calls
PYTHON_FUNCTION = "plus_one"

CONSTRUCTS = (
    Construct(
        "joins",
        "inner: `JOIN`, comma, `CROSS`, `NATURAL`, `USING`, self-joins, any condition",
        (
            "inner",
            "using",
            "theta",
            "inneragg",
        ),
    ),
    Construct("joins", "`LEFT JOIN`", ("left",)),
    Construct("joins", "`RIGHT JOIN`", ("right",)),
    Construct(
        "joins",
        "`FULL JOIN`",
        (
            "full",
            "fullusing",
        ),
    ),
    Construct(
        "joins",
        "outer joins, chained and mixed",
        (
            "chain",
            "fullchain",
            "mixed",
            "bracketed",
        ),
    ),
    Construct(
        "joins",
        "outer joins by any condition",
        (
            "lefttheta",
            "fulltheta",
        ),
    ),
    Construct(
        "joins",
        "aggregates over outer joins, and outer joins over aggregates",
        (
            "leftagg",
            "overagg",
            "fullagg",
        ),
    ),
    Construct(
        "joins",
        "`LEFT SEMI JOIN`, `LEFT ANTI JOIN`",
        (
            "semi",
            "anti",
            "antitheta",
        ),
    ),
    Construct(
        "joins",
        "`LATERAL`, over columns and over tables",
        (
            "lateral",
            "lateral2",
        ),
    ),
    Construct(
        "joins",
        "over padded rows",
        (
            "padded_partition",
            "padded_except",
            "padded_intersect",
        ),
    ),
    Construct(
        "subqueries",
        "`EXISTS`, `NOT EXISTS`",
        (
            "exists",
            "notexists",
        ),
    ),
    Construct("subqueries", "`IN`", ("in",)),
    Construct("subqueries", "`NOT IN`, nulls included", ("notin",)),
    Construct(
        "subqueries",
        "`ANY`, `ALL`",
        (
            "any",
            "all",
        ),
    ),
    Construct(
        "subqueries",
        "under `OR`, `NOT` and `CASE`",
        (
            "inor",
            "existsnot",
            "existscase",
        ),
    ),
    Construct("subqueries", "`IN` in the `SELECT` list, nulls included", ("insel",)),
    Construct(
        "subqueries",
        "scalar, in the `SELECT` list",
        (
            "scalar",
            "scalarc",
            "scalar1",
        ),
    ),
    Construct(
        "subqueries",
        "scalar, in `WHERE`",
        (
            "scalarw",
            "scalarwu",
        ),
    ),
    Construct(
        "subqueries",
        "in `HAVING`",
        (
            "scalarh",
            "inh",
        ),
    ),
    Construct("subqueries", "in `ON` of an inner join", ("onsub",)),
    Construct("subqueries", "in `ON` of other joins", ("onleft", "onfull", "onanti")),
    Construct("subqueries", "in `ON`, over both sides", ("onboth", "onbothfull")),
    Construct("subqueries", "subqueries in subqueries", ("nested",)),
    Construct("set operations", "`UNION ALL`", ("unionall",)),
    Construct("set operations", "`UNION`", ("union",)),
    Construct(
        "set operations",
        "`INTERSECT`, `INTERSECT ALL`",
        (
            "intersect",
            "intersectall",
        ),
    ),
    Construct(
        "set operations",
        "`EXCEPT`, `EXCEPT ALL`",
        (
            "except",
            "exceptall",
        ),
    ),
    Construct(
        "set operations",
        "nested, and aggregated",
        (
            "setnested",
            "unionagg",
        ),
    ),
    Construct(
        "set operations",
        "`SELECT DISTINCT`",
        (
            "distinct",
            "distinctjoin",
            "constant_key",
        ),
    ),
    Construct(
        "aggregates",
        "`SUM`, `COUNT`, `AVG`",
        (
            "sums",
            "keyless",
        ),
    ),
    Construct(
        "aggregates",
        "`MIN`, `MAX`",
        (
            "minmax",
            "minkeyless",
        ),
    ),
    Construct("aggregates", "`COUNT`, `SUM`, `AVG` of `DISTINCT`", ("sumdistinct",)),
    Construct("aggregates", "`FILTER`", ("filter",)),
    Construct("aggregates", "`PIVOT`", ("pivot",)),
    Construct("aggregates", "`STDDEV`, `VARIANCE`, `COVAR`, `CORR`", ("stddev",)),
    Construct("aggregates", "`COFACTOR`", ("cofactor",)),
    Construct("aggregates", "`BOOL_AND`, `BOOL_OR`, `COUNT_IF`", ("bools",)),
    Construct("aggregates", "`MEDIAN`", ("median",)),
    Construct("aggregates", "expressions over aggregates, `HAVING`", ("having",)),
    Construct(
        "aggregates",
        "grouping by expressions, positions, `ALL`",
        (
            "groupexpr",
            "groupall",
        ),
    ),
    Construct(
        "aggregates",
        "aggregates of aggregates",
        (
            "twice",
            "maxofsum",
        ),
    ),
    Construct(
        "aggregates",
        "`ROLLUP`, `CUBE`",
        (
            "rollup",
            "cube",
        ),
    ),
    Construct("aggregates", "`GROUPING SETS`", ("sets",)),
    Construct(
        "windows", "`ROW_NUMBER`, `RANK`, `DENSE_RANK`, `PERCENT_RANK`, `CUME_DIST`, `NTILE`", ("ranks",)
    ),
    Construct("windows", "`LAG`, `LEAD`, `FIRST_VALUE`, `LAST_VALUE`, `NTH_VALUE`", ("lags",)),
    Construct("windows", "running and framed aggregates", ("frames",)),
    Construct(
        "windows",
        "without `PARTITION BY`",
        (
            "window",
            "constant_window",
        ),
    ),
    Construct(
        "windows",
        "over joins and over aggregates",
        (
            "aggwin",
            "joinwin",
        ),
    ),
    Construct(
        "windows",
        "`QUALIFY`, the first rows of a group",
        (
            "qualify",
            "topk",
        ),
    ),
    Construct(
        "order",
        "`ORDER BY` with `LIMIT`",
        (
            "limit",
            "limitagg",
            "constant_order",
        ),
    ),
    Construct(
        "order",
        "`OFFSET`",
        (
            "limitoff",
            "offset",
        ),
    ),
    Construct("values", "conditions and choices", ("choices",)),
    Construct("values", "rows in `=`, `<>` and `IN (values)`", ("rowsin",)),
    Construct("values", "casts", ("casts",)),
    Construct("values", "strings", ("strings",)),
    Construct("values", "dates", ("dates",)),
    Construct("values", "arithmetic", ("maths",)),
    Construct("values", "sums of decimals and doubles", ("money",)),
    Construct("values", "Python functions", ("python",)),
    Construct("views over views", "a view over a view", ("overview",)),
    Construct("views over views", "a join of two views", ("overviews",)),
)

BATCHES = (
    (
        "INSERT INTO u VALUES (4, 2, 11), (5, 1, 12)",
        "UPDATE w SET price = price + 1, ratio = 0.25 WHERE k < 3",
    ),
    ("UPDATE r SET b = b + 1 WHERE a = 1",),
    ("UPDATE u SET a = 1 WHERE k = 2", "DELETE FROM r WHERE k = 1"),
    ("DELETE FROM u WHERE a = 1", "UPDATE w SET s = 'abc', day = DATE '2024-02-28' WHERE k = 3"),
    (
        "INSERT INTO r VALUES (7, 3, 100, 'z'), (8, 2, 3, 'q')",
        "UPDATE u SET c = 0 WHERE k = 3",
        "UPDATE r SET a = 2 WHERE k = 4",
    ),
    (
        "UPDATE u SET a = NULL",
        "DELETE FROM w WHERE k = 1",
        "INSERT INTO w VALUES (5, 'b', 7, NULL, 0.01, NULL)",
    ),
    ("DELETE FROM u",),
    ("DELETE FROM r", "INSERT INTO u VALUES (1, 1, 1)"),
    ("INSERT INTO r VALUES (1, 1, 1, 'x'), (2, 1, 2, 'x')",),
)

# queries that no engine takes, in words that all take
WRITTEN_OUT = {
    VIEWS[
        "pivot"
    ]: "SELECT a, SUM(b) FILTER (WHERE s = 'x') AS x_total, NULLIF(COUNT(*) FILTER (WHERE s = 'x'), 0) AS x_n, "
    "SUM(b) FILTER (WHERE s = 'y') AS yy_total, NULLIF(COUNT(*) FILTER (WHERE s = 'y'), 0) AS yy_n FROM r GROUP BY a",
    VIEWS[
        "cofactor"
    ]: "SELECT s, COUNT(x) AS n, COALESCE(SUM(x), 0) AS x, COALESCE(SUM(y), 0) AS y, COALESCE(SUM(x * x), 0) AS xx, "
    "COALESCE(SUM(x * y), 0) AS xy, COALESCE(SUM(y * y), 0) AS yy FROM (SELECT r.s, CASE WHEN u.c IS NOT NULL THEN r.b END AS x, "
    "CASE WHEN r.b IS NOT NULL THEN u.c END AS y FROM r JOIN u ON r.a = u.a) AS q GROUP BY s",
}
