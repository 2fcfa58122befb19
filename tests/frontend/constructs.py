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
