"""How plans are written where rows of a scan are looked up."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tests.helpers import bound, table
from viewkeep.algebra.nodes import Node, Scan, walk
from viewkeep.algebra.script_nodes import SemiJoin
from viewkeep.frontend.normalize import normalize
from viewkeep.script.render import Renderer

R = table("r", "k INT, a INT, b INT", "k")
S = table("s", "k INT, a INT, b INT", "k a")


class Names:
    row = "rowid"
    full_joins = True

    def table(self, scan: Scan) -> exp.Expr:
        return exp.to_table(scan.table)

    def images(self, table: str) -> exp.Expr | None:
        return None

    def net(self, table: str) -> exp.Expr:
        raise NotImplementedError

    ref = stored = net


def written(query: str, *sought: tuple[str, str]) -> str:
    plan: Node = normalize(bound(query, [R, S]).plan)
    scans = {n.alias: n for n in walk(plan) if isinstance(n, Scan)}
    found = [(scans[alias], column) for alias, column in sought]
    return Renderer(Names(), found).query(plan).sql(dialect="duckdb").replace('"', "")


def test_conditions_of_a_scan_that_is_looked_up_look_at_its_key_too() -> None:
    query = "SELECT r.k, r.a, r.b FROM r WHERE r.a > 1 AND r.a < r.b"
    assert "CASE" not in written(query)
    made = written(query, ("r", "r_b"))
    assert "CASE WHEN NOT t1.k IS NULL THEN t1.a > 1 END AND t1.a < t1.b" in made  # the second does anyway


def test_conditions_on_the_key_and_of_other_scans_stay() -> None:
    assert "CASE" not in written("SELECT r.k, r.a FROM r WHERE r.k > 1", ("r", "r_a"))
    made = written("SELECT r.a, s.b FROM r JOIN s ON r.k = s.k WHERE r.a > 1 AND s.b > 2", ("s", "s_k"))
    assert "t1.a > 1" in made
    assert made.count("CASE") == 1


@pytest.mark.parametrize(("sought", "found", "compared"), [("s_k", "k", "a"), ("s_a", "a", "k")])
def test_of_several_equal_columns_one_finds_the_rows(sought: str, found: str, compared: str) -> None:
    query = "SELECT r.b AS x, s.b AS y FROM r JOIN s ON r.k = s.k AND r.a = s.a"
    assert "CASE" not in written(query)
    made = written(query, ("s", sought))
    assert f"CASE WHEN NOT t2.k IS NULL THEN t1.{compared} = t2.{compared} END" in made
    assert made.count("CASE") == 1
    assert f"t1.{found} = t2.{found}" in made.replace(f"THEN t1.{compared} = t2.{compared}", "")


def restricted(on: tuple[tuple[str, str], ...], *sought: str, anti: bool = False) -> str:
    """The rows of s that rows of r name, by some columns."""
    plans = [normalize(bound(f"SELECT * FROM {name}", [R, S]).plan) for name in "sr"]
    s, r = (next(n for n in walk(plan) if isinstance(n, Scan)) for plan in plans)
    node = SemiJoin(s, r, tuple((f"s_{a}", f"r_{b}") for a, b in on), anti=anti)
    return (
        Renderer(Names(), [(s, f"s_{name}") for name in sought])
        .query(node)
        .sql(dialect="duckdb")
        .replace('"', "")
    )


def test_rows_named_by_several_columns_are_joined_where_one_of_them_finds_them() -> None:
    on = (("k", "a"), ("a", "k"))
    assert "EXISTS" in restricted(on)
    made = restricted(on, "k")
    assert "EXISTS" not in made
    assert "SELECT DISTINCT" in made  # a row that is named twice is there once
    on_one = "JOIN s AS t4 ON t4.k = t3.named:r_a AND CASE WHEN NOT t4.k IS NULL THEN t4.a = t3.named:r_k END"
    assert made.endswith(on_one)


def test_rows_named_by_one_column_or_by_others_stay_named_by_exists() -> None:
    assert "EXISTS" in restricted((("k", "k"),), "k")
    assert "EXISTS" in restricted((("k", "k"), ("a", "a")), "b")
    assert "NOT EXISTS" in restricted((("k", "k"), ("a", "a")), "k", anti=True)
