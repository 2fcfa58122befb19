"""Views with constructs that need more than one join or group, over three small tables with nulls in them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

TABLES = (
    "CREATE TABLE a (k INT, g INT, d INT, x INT, s STRING, PRIMARY KEY (k))",
    "CREATE TABLE b (k INT, g INT, d INT, y INT, PRIMARY KEY (k))",
    "CREATE TABLE c (k INT, g INT, z INT, PRIMARY KEY (k))",
)
COLUMNS = {"a": "gdxs", "b": "gdy", "c": "gz"}

CORRELATED = {
    "max_by_two": "SELECT a.k, (SELECT MAX(b.y) FROM b WHERE b.g = a.g AND b.d < a.d) AS m FROM a",
    "count_less": "SELECT a.k, (SELECT COUNT(*) FROM b WHERE b.d < a.d) AS n FROM a",
    "in_where": "SELECT a.k FROM a WHERE a.x > (SELECT AVG(b.y) FROM b WHERE b.d <= a.d)",
    "in_having": "SELECT a.g, SUM(a.x) AS t FROM a GROUP BY a.g "
    "HAVING SUM(a.x) >= (SELECT COUNT(*) FROM b WHERE b.g < a.g)",
    "over_groups": "SELECT a.g, (SELECT SUM(b.y) FROM b WHERE b.g < a.g) AS t, COUNT(*) AS n FROM a GROUP BY a.g",
    "coalesced": "SELECT a.k, (SELECT COALESCE(SUM(b.y), 0) FROM b WHERE b.g = a.g) AS t FROM a",
    "coalesced_less": "SELECT a.k, (SELECT COALESCE(SUM(b.y), 0) + 1 FROM b WHERE b.d > a.d) AS t FROM a",
    "outer_in_argument": "SELECT a.k, (SELECT SUM(b.y + a.x) FROM b WHERE b.g = a.g) AS t FROM a",
    "outer_beside": "SELECT a.k, (SELECT COUNT(*) + a.x FROM b WHERE b.g = a.g) AS t FROM a",
    "running": "SELECT a.k, (SELECT SUM(i.x) FROM a AS i WHERE i.g = a.g AND i.k <= a.k) AS t FROM a",
    "null_safe": "SELECT a.k, (SELECT COUNT(*) FROM b WHERE b.g <=> a.g AND b.d <> a.d) AS n FROM a",
    "either": "SELECT a.k, (SELECT COUNT(*) FROM b WHERE a.d IS NULL OR b.d = a.d) AS n FROM a",
    "filtered_outer": "SELECT a.k, (SELECT MIN(b.y) FROM b WHERE b.d > a.d) AS m FROM a WHERE a.x > 0 AND a.s = 'p'",
    "of_a_join": "SELECT a.k, c.z, (SELECT COUNT(*) FROM b WHERE b.d < a.d AND b.y < c.z) AS n "
    "FROM a JOIN c ON a.g = c.g",
    "one_value": "SELECT a.k, (SELECT b.y FROM b WHERE b.k = a.k + 1) AS v FROM a",
    "latest": "SELECT a.k, (SELECT b.y FROM b WHERE b.g = a.g ORDER BY b.d DESC, b.k LIMIT 1) AS v FROM a",
    "latest_before": "SELECT a.k, (SELECT b.y FROM b WHERE b.g = a.g AND b.d <= a.d ORDER BY b.d DESC, b.k LIMIT 1)"
    " AS v FROM a",
    "second": "SELECT a.k, (SELECT b.y FROM b WHERE b.g = a.g ORDER BY b.k LIMIT 1 OFFSET 1) AS v FROM a",
    "no_from": "SELECT a.k, (SELECT a.x + 1) AS v FROM a",
    "count_limit": "SELECT a.k, (SELECT COUNT(*) FROM b WHERE b.g = a.g LIMIT 1) AS v FROM a",
    "exists_aggregate": "SELECT a.k FROM a WHERE EXISTS (SELECT COUNT(*) FROM b WHERE b.g = a.g)",
    "in_aggregate": "SELECT a.k FROM a WHERE a.x IN (SELECT COUNT(*) FROM b WHERE b.g = a.g)",
    "not_in_aggregate": "SELECT a.k FROM a WHERE a.x NOT IN (SELECT COUNT(*) FROM b WHERE b.d < a.d)",
    "exists_having": "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g HAVING COUNT(*) > 1)",
    "exists_having_outer": "SELECT a.k FROM a WHERE EXISTS "
    "(SELECT b.d FROM b WHERE b.g = a.g GROUP BY b.d HAVING SUM(b.y) > a.x)",
    "exists_limit": "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.d < a.d LIMIT 1)",
    "exists_qualify": "SELECT a.k FROM a WHERE EXISTS "
    "(SELECT 1 FROM b WHERE b.g = a.g QUALIFY ROW_NUMBER() OVER (ORDER BY b.d, b.k) = 2)",
    "in_qualify": "SELECT a.k FROM a WHERE a.x IN "
    "(SELECT b.y FROM b WHERE b.d < a.d QUALIFY ROW_NUMBER() OVER (ORDER BY b.y, b.k) <= 2)",
    "in_aggregates": "SELECT a.g, SUM(CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND b.d < a.d) THEN 1 ELSE 0 END)"
    " AS n, MAX((SELECT COUNT(*) FROM c WHERE c.z <= a.x)) AS m FROM a GROUP BY a.g "
    "HAVING COUNT(CASE WHEN a.x IN (SELECT b.y FROM b) THEN 1 END) < 3",
    # two levels
    "two_exists": "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g "
    "AND EXISTS (SELECT 1 FROM c WHERE c.g = b.g AND c.z = a.x))",
    "two_not_exists": "SELECT a.k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.g = a.g "
    "AND NOT EXISTS (SELECT 1 FROM c WHERE c.z = b.y AND c.g = a.g))",
    "two_only_inner": "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE "
    "EXISTS (SELECT 1 FROM c WHERE c.g = b.g AND c.z = a.x))",
    "two_in": "SELECT a.k FROM a WHERE a.x IN (SELECT b.y FROM b WHERE b.g IN "
    "(SELECT c.g FROM c WHERE c.z >= a.d))",
    "two_scalar": "SELECT a.k, (SELECT MAX(b.y) FROM b WHERE b.d > (SELECT MIN(c.z) FROM c WHERE c.g = a.g)) AS m FROM a",
    "two_scalar_both": "SELECT a.k, (SELECT COUNT(*) FROM b WHERE b.y > "
    "(SELECT COUNT(*) FROM c WHERE c.g = b.g AND c.z < a.x)) AS n FROM a",
    "scalar_in_exists": "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND "
    "b.y > (SELECT AVG(c.z) FROM c WHERE c.g <= a.g))",
    # LATERAL
    "lateral_top": "SELECT a.k, t.y FROM a, LATERAL (SELECT b.y FROM b WHERE b.g = a.g ORDER BY b.y DESC, b.k LIMIT 2) AS t",
    "lateral_before": "SELECT a.k, t.y FROM a LEFT JOIN LATERAL "
    "(SELECT b.y FROM b WHERE b.d < a.d ORDER BY b.d DESC, b.k LIMIT 1) AS t ON TRUE",
    "lateral_distinct": "SELECT a.k, t.y FROM a, LATERAL (SELECT DISTINCT b.y FROM b WHERE b.d < a.d) AS t",
    "lateral_aggregate": "SELECT a.k, t.n, t.m FROM a, LATERAL "
    "(SELECT COUNT(*) AS n, MAX(b.y) AS m FROM b WHERE b.d < a.d) AS t",
    "lateral_left_aggregate": "SELECT a.k, t.n FROM a LEFT JOIN LATERAL "
    "(SELECT COUNT(b.y) AS n FROM b WHERE b.g = a.g) AS t ON TRUE",
    "lateral_groups": "SELECT a.k, t.g, t.n FROM a, LATERAL (SELECT b.g, COUNT(*) AS n FROM b WHERE b.d < a.d GROUP BY b.g) AS t",
}

STARS = {
    "except_columns": "SELECT * EXCEPT (s, d) FROM a",
    "except_of_one": "SELECT a.* EXCEPT (g), b.* EXCEPT (b.k, d) FROM a JOIN b ON a.k = b.k",
    "except_shared": "SELECT * EXCEPT (a.d, b.d, k) FROM a JOIN b USING (g, k)",
}

WINDOWS = {
    "range_numbers": "SELECT k, SUM(x) OVER (PARTITION BY g ORDER BY d RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS t, "
    "COUNT(*) OVER (ORDER BY d DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM a",
    "range_days": "SELECT k, SUM(x) OVER (ORDER BY DATE_ADD(DATE '2024-02-27', d) "
    "RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND CURRENT ROW) AS t, COUNT(x) OVER (PARTITION BY g ORDER BY "
    "CAST(DATE_ADD(DATE '2024-02-27', d) AS TIMESTAMP) RANGE BETWEEN CURRENT ROW AND INTERVAL 36 HOURS FOLLOWING) AS n "
    "FROM a",
    "ignore_nulls": "SELECT k, LAST_VALUE(x) IGNORE NULLS OVER (PARTITION BY g ORDER BY k) AS l, "
    "FIRST_VALUE(s, TRUE) OVER (ORDER BY k DESC) AS f, LAG(x, 2) IGNORE NULLS OVER (ORDER BY k) AS g FROM a",
    "window_aggregates": "SELECT k, COUNT_IF(COALESCE(x, 0) > 1) OVER (PARTITION BY g) AS n, BOOL_AND(x > 0) OVER (PARTITION BY g) "
    "AS b, STDDEV(x) OVER (PARTITION BY g ORDER BY k) AS d FROM a",
}
OTHERS = {
    "earlier_alias": "SELECT k, x * 2 AS twice, twice + 1 AS more, more - d AS rest FROM a",
    "earlier_aggregate": "SELECT g, SUM(x) AS t, COUNT(*) AS n, t / n AS mean FROM a GROUP BY g",
    "values": "SELECT a.k, v.w FROM a JOIN (VALUES (1, 'one'), (2, NULL), (3, 'three')) AS v(g, w) ON a.g = v.g",
    "values_left": "SELECT v.n, COUNT(a.k) AS c FROM VALUES (0), (1), (9) AS v(n) LEFT JOIN a ON a.g = v.n GROUP BY v.n",
}
# a view, and the same for DuckDB: SQL leaves open the order of elements, and which of some equal rows is taken
AGGREGATED = {
    "collect_list": (
        "SELECT g, collect_list(x) AS l, array_agg(s) AS m FROM a GROUP BY g",
        "SELECT g, COALESCE(list(x ORDER BY x) FILTER (x IS NOT NULL), []), "
        "COALESCE(list(s ORDER BY s) FILTER (s IS NOT NULL), []) FROM a GROUP BY g",
    ),
    "collect_set": (
        "SELECT g, collect_set(x) AS l, array_agg(DISTINCT s) FILTER (WHERE x > 1) AS m FROM a GROUP BY g",
        "SELECT g, COALESCE(list(DISTINCT x ORDER BY x) FILTER (x IS NOT NULL), []), "
        "COALESCE(list(DISTINCT s ORDER BY s) FILTER (x > 1 AND s IS NOT NULL), []) FROM a GROUP BY g",
    ),
    "collect_all": (
        "SELECT collect_list(d) AS l FROM b",
        "SELECT COALESCE(list(d ORDER BY d) FILTER (d IS NOT NULL), []) FROM b",
    ),
    "collect_of_outer": (
        "SELECT a.k, (SELECT collect_list(b.y) FROM b WHERE b.g = a.g) AS l FROM a",
        "SELECT a.k, (SELECT COALESCE(list(b.y ORDER BY b.y) FILTER (b.y IS NOT NULL), []) FROM b "
        "WHERE b.g = a.g) FROM a",
    ),
    "of_arrays": (
        "SELECT g, size(collect_list(x)) AS n, array_contains(collect_set(x), 3) AS has, "
        "sort_array(collect_list(x), false) AS down, array_join(collect_list(s), '-') AS j, "
        "concat_ws('-', 'q', collect_set(s), 'r') AS c, get(collect_list(x), 1) AS second, "
        "array_max(collect_list(x)) AS hi FROM a GROUP BY g",
        "SELECT g, COUNT(x), COALESCE(BOOL_OR(x = 3), FALSE), "
        "COALESCE(list(x ORDER BY x DESC) FILTER (x IS NOT NULL), []), "
        "COALESCE(string_agg(s, '-' ORDER BY s), ''), "
        "concat_ws('-', 'q', string_agg(DISTINCT s, '-' ORDER BY s), 'r'), "
        "(list(x ORDER BY x) FILTER (x IS NOT NULL))[2], MAX(x) FROM a GROUP BY g",
    ),
    "over_collected": (
        "SELECT a.k, q.l, size(q.l) AS n FROM a LEFT JOIN (SELECT g, collect_list(y) AS l FROM b GROUP BY g) AS q "
        "ON a.g = q.g WHERE q.l IS NULL OR size(q.l) > 1",
        "SELECT a.k, q.l, len(q.l) FROM a LEFT JOIN (SELECT g, COALESCE(list(y ORDER BY y) "
        "FILTER (y IS NOT NULL), []) AS l FROM b GROUP BY g) AS q ON a.g = q.g WHERE q.l IS NULL OR len(q.l) > 1",
    ),
    "listagg": (
        "SELECT g, listagg(s, ',') AS l, string_agg(DISTINCT s, '+') WITHIN GROUP (ORDER BY s DESC) AS d, "
        "listagg(s) WITHIN GROUP (ORDER BY x DESC NULLS LAST) AS o FROM a GROUP BY g",
        "SELECT g, string_agg(s, ',' ORDER BY s), string_agg(DISTINCT s, '+' ORDER BY s DESC), "
        "string_agg(s, '' ORDER BY x DESC NULLS LAST, s) FROM a GROUP BY g",
    ),
    "by_other": (
        "SELECT g, max_by(s, x) AS hi, min_by(k, d) AS lo, max_by(x, d) FILTER (WHERE s = 'p') AS p FROM a GROUP BY g",
        "SELECT g, first(s ORDER BY x DESC, s DESC NULLS LAST) FILTER (x IS NOT NULL), "
        "first(k ORDER BY d, k) FILTER (d IS NOT NULL), "
        "first(x ORDER BY d DESC, x DESC NULLS LAST) FILTER (d IS NOT NULL AND s = 'p') FROM a GROUP BY g",
    ),
    "mode": (
        "SELECT g, mode(x) AS m, any_value(s) AS v FROM a GROUP BY g",
        "SELECT g, mode(x ORDER BY x), MIN(s) FROM a GROUP BY g",
    ),
    "percentiles": (
        "SELECT g, percentile(x, 0.25) AS p, percentile_cont(0.3) WITHIN GROUP (ORDER BY x DESC) AS c, "
        "percentile_disc(0.4) WITHIN GROUP (ORDER BY x) AS d, "
        "percentile_disc(0.4) WITHIN GROUP (ORDER BY x DESC) FILTER (WHERE d > 0) AS e FROM a GROUP BY g",
        "SELECT g, quantile_cont(x::DOUBLE, 0.25), quantile_cont(x::DOUBLE, 0.7), quantile_disc(x, 0.4)::DOUBLE, "
        "(percentile_disc(0.4) WITHIN GROUP (ORDER BY x DESC) FILTER (d > 0))::DOUBLE FROM a GROUP BY g",
    ),
    "bits": (
        "SELECT g, bit_and(x) AS a, bit_or(x) AS o, bit_xor(x) AS x, every(x > 1) AS e, some(x > 1) AS s, "
        "std(x) AS d FROM a GROUP BY g",
        "SELECT g, bit_and(x), bit_or(x), bit_xor(x), BOOL_AND(x > 1), BOOL_OR(x > 1), STDDEV(x) FROM a GROUP BY g",
    ),
    "regression": (
        "SELECT g, regr_count(x, d) AS n, regr_avgx(x, d) AS ax, regr_avgy(x, d) AS ay, regr_sxx(x, d) AS sxx, "
        "regr_syy(x, d) AS syy, regr_sxy(x, d) AS sxy, regr_slope(x, d) AS m, regr_intercept(x, d) AS b, "
        "regr_r2(x, d) AS r FROM a GROUP BY g",
        "SELECT g, regr_count(x, d), regr_avgx(x, d), regr_avgy(x, d), regr_sxx(x, d), regr_syy(x, d), "
        "regr_sxy(x, d), CASE WHEN regr_sxx(x, d) <> 0 THEN regr_slope(x, d) END, regr_intercept(x, d), "
        "regr_r2(x, d) FROM a GROUP BY g",
    ),
}


def row(random: Random, table: str, key: int) -> str:
    """VALUES of a row: few values, so that they meet, and every fifth a null."""

    def value(name: str) -> str:
        if random.random() < 0.2:
            return "NULL"
        return f"'{random.choice('pqr')}'" if name == "s" else str(random.randint(0, 4))

    return f"({key}, {', '.join(value(name) for name in COLUMNS[table])})"


def start(random: Random) -> Iterator[str]:
    """Rows for every table."""
    for table in COLUMNS:
        rows = ", ".join(row(random, table, key) for key in range(1, random.randint(5, 9)))
        yield f"INSERT INTO {table} VALUES {rows}"


def batch(random: Random, number: int) -> Iterator[str]:
    """Changes to some tables at once: inserts, updates of single columns, deletes."""
    for table, names in COLUMNS.items():
        for step in range(random.randint(0, 3)):
            kind = random.choice(("insert", "update", "update", "delete"))
            if kind == "insert":
                yield f"INSERT INTO {table} VALUES {row(random, table, 100 * number + step)}"
            elif kind == "delete":
                yield f"DELETE FROM {table} WHERE k % 4 = {random.randint(0, 3)}"
            else:
                name = random.choice([n for n in names if n != "s"] or ["g"])
                new = random.choice((f"{name} + 1", "NULL", str(random.randint(0, 4))))
                yield f"UPDATE {table} SET {name} = {new} WHERE k % 3 = {random.randint(0, 2)}"
