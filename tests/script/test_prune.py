"""Stored relations are narrowed to what small ones look for, and to nothing less."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sqlglot import exp

from viewkeep.algebra.expressions import column
from viewkeep.algebra.nodes import Column, Item, Join, Node, OuterJoin, Project, Scan, Select, walk
from viewkeep.algebra.script_nodes import LeftJoin, Ref, SemiJoin, Stored, Union
from viewkeep.algebra.types import BIGINT, INT, STRING, parse
from viewkeep.script.prune import MOST_VALUES, one_of, pruned, reads_little

K, X = Column("k", INT, nullable=False), Column("x", INT)
D = Column("d", INT)
WIDE = Column("w", BIGINT)
TABLE = Scan("t", "t", ((K, "k"), (X, "x")), ("k",))
CACHE = Stored("cache_1", (K, X), ("k",))
DIFF = Ref("diff", (D,))


def known(**columns: set[Any]) -> Any:
    return lambda small, name: frozenset(columns[name]) if name in columns else None


def equal(a: str, b: str) -> exp.Expr:
    return exp.EQ(this=column(a), expression=column(b))


def narrowed(node: Node) -> dict[str, str]:
    """The conditions that stand right above stored relations."""
    return {
        type(n.input).__name__: n.predicate.sql()
        for n in walk(node)
        if isinstance(n, Select) and isinstance(n.input, (Scan, Stored))
    }


def test_a_join_with_a_small_relation_narrows_the_other_side() -> None:
    made = pruned(Join(DIFF, TABLE, equal("d", "k")), known(d={3, 1}))
    assert narrowed(made) == {"Scan": '"k" IN (CAST(1 AS INT), CAST(3 AS INT))'}
    made = pruned(Join(CACHE, DIFF, equal("k", "d")), known(d={3}))
    assert narrowed(made) == {"Stored": '"k" IN (CAST(3 AS INT))'}
    null_safe = exp.NullSafeEQ(this=column("x"), expression=column("d"))
    made = pruned(Join(CACHE, DIFF, null_safe), known(d={3, None}))
    assert narrowed(made) == {"Stored": '"x" IN (CAST(3 AS INT)) OR "x" IS NULL'}


def test_nulls_and_no_values_at_all() -> None:
    made = pruned(Join(DIFF, TABLE, equal("d", "x")), known(d={None, 1}))
    assert narrowed(made) == {"Scan": '"x" IN (CAST(1 AS INT)) OR "x" IS NULL'}
    made = pruned(Join(DIFF, TABLE, equal("d", "x")), known(d=set()))
    assert narrowed(made) == {"Scan": "FALSE"}


def test_values_pass_through_projections_unions_and_further_joins() -> None:
    renamed = Project(DIFF, (Item(Column("e", INT), column("d")),))
    other = Project(Ref("more", (Column("m", INT),)), (Item(Column("e", INT), column("m")),))
    both = Union((renamed, other))
    made = pruned(Join(both, TABLE, equal("e", "k")), known(d={1}, m={2}))
    assert narrowed(made) == {"Scan": '"k" IN (CAST(1 AS INT), CAST(2 AS INT))'}
    assert narrowed(pruned(Join(both, TABLE, equal("e", "k")), known(d={1}))) == {}, "one part is unknown"
    u = Scan("u", "u", ((Column("uk", INT, nullable=False), "uk"),), ("uk",))
    chain = Join(Join(DIFF, TABLE, equal("d", "k")), u, equal("k", "uk"))
    assert len([n for n in walk(pruned(chain, known(d={1}))) if isinstance(n, Select)]) == 2
    chain = Join(DIFF, Join(TABLE, u, equal("k", "uk")), equal("d", "k"))
    assert len([n for n in walk(pruned(chain, known(d={1}))) if isinstance(n, Select)]) == 2


def test_semi_anti_and_left_joins() -> None:
    semi = SemiJoin(TABLE, DIFF, (("k", "d"),))
    assert narrowed(pruned(semi, known(d={1}))) == {"Scan": '"k" IN (CAST(1 AS INT))'}
    anti = SemiJoin(TABLE, DIFF, (("k", "d"),), anti=True)
    assert narrowed(pruned(anti, known(d={1}))) == {}, "what has no partner is what is asked for"
    left = LeftJoin(DIFF, TABLE, (("d", "k"),))
    assert narrowed(pruned(left, known(d={1}))) == {"Scan": '"k" IN (CAST(1 AS INT))'}
    left = LeftJoin(TABLE, DIFF, (("k", "d"),))
    assert narrowed(pruned(left, known(d={1}))) == {}, "every left row stays"


def test_an_outer_join_is_left_alone() -> None:
    outer = OuterJoin(TABLE, DIFF, equal("k", "d"))
    assert narrowed(pruned(outer, known(d={1}))) == {}


def test_other_types_and_many_values_are_left_alone() -> None:
    wide = Ref("diff", (WIDE,))
    assert narrowed(pruned(Join(wide, TABLE, equal("w", "k")), known(w={3_000_000_000}))) == {}
    many = known(d=set(range(MOST_VALUES + 1)))
    assert narrowed(pruned(Join(DIFF, TABLE, equal("d", "k")), many)) == {}
    assert narrowed(pruned(Join(DIFF, TABLE, equal("d", "k")), many, MOST_VALUES + 1)) != {}
    assert one_of(column("k"), parse("DOUBLE") or INT, frozenset({0.1})) is None


def test_values_are_written_without_loss() -> None:
    money = parse("DECIMAL(10,2)")
    assert money is not None
    made = one_of(column("k"), money, frozenset({Decimal("1.10")}))
    assert made is not None
    assert made.sql("spark") == "`k` IN (CAST('1.10' AS DECIMAL(10, 2)))"
    quoted = one_of(column("k"), STRING, frozenset({"it's\\"}))
    assert quoted is not None
    assert quoted.sql("spark") == r"`k` IN ('it\'s\\')"


def test_little_is_read_where_values_of_caches_are_named_and_nothing_else_is_read() -> None:
    looked_up = pruned(Join(CACHE, DIFF, equal("k", "d")), known(d={3}))
    assert reads_little(looked_up, {"cache_1"})
    assert not reads_little(looked_up, set()), "its rows are in no order"
    assert reads_little(DIFF, set())
    assert not reads_little(Join(CACHE, DIFF, equal("k", "d")), {"cache_1"}), "no value is named"
    base = pruned(Join(TABLE, DIFF, equal("k", "d")), known(d={3}))
    assert not reads_little(base, {"cache_1"}), "no one knows in which order a base table is"


def test_what_was_found_by_values_looks_for_these_values_itself() -> None:
    key = Column("c", INT, nullable=False)
    cache = Stored("cache_1", (key,), ("c",))
    found = SemiJoin(TABLE, DIFF, (("x", "d"),))
    made = pruned(Join(found, cache, equal("x", "c")), known(d={3}))
    assert narrowed(made) == {"Scan": '"x" IN (CAST(3 AS INT))', "Stored": '"c" IN (CAST(3 AS INT))'}
    joined = Join(TABLE, DIFF, equal("x", "d"))
    made = pruned(Join(joined, cache, equal("x", "c")), known(d={3}))
    assert narrowed(made)["Stored"] == '"c" IN (CAST(3 AS INT))'
    none_of = SemiJoin(TABLE, DIFF, (("x", "d"),), anti=True)
    assert narrowed(pruned(Join(none_of, cache, equal("x", "c")), known(d={3}))) == {}
