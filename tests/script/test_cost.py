"""How many rows a script is taken to read."""

from __future__ import annotations

from tests.helpers import COST, SPJ, compiled, script
from viewkeep.algebra.nodes import Scan
from viewkeep.algebra.script_nodes import Stored
from viewkeep.script.cost import Sizes, rows_of_plan, rows_read

TABLES = {"parts": 1_000, "devices": 500, "links": 10_000}


def sizes(*looked_up: str) -> Sizes:
    """Sizes of the shop's tables; rows are found by columns given as table.column."""

    def found(leaf: Scan | Stored, column: str) -> bool:
        name = leaf.table if isinstance(leaf, Scan) else leaf.target
        return f"{name}.{column}" in looked_up or any(
            isinstance(leaf, Scan) and f"{name}.{leaf.base_name.get(column)}" == one for one in looked_up
        )

    return Sizes(TABLES, {"rows": 7_000, "cache_1": 9_000}, found)


def test_recomputing_reads_every_table() -> None:
    assert rows_of_plan(compiled(SPJ).plan, sizes()) == 11_500


def test_a_table_that_is_named_twice_is_read_twice() -> None:
    twice = compiled("SELECT a.pid FROM parts a JOIN parts b ON a.price = b.price")
    assert rows_of_plan(twice.plan, sizes()) == 2_000


def test_a_diff_alone_reads_nothing() -> None:
    assert rows_read(script(compiled(SPJ), parts="update:price"), sizes()) == 0


def test_a_join_reads_what_it_cannot_look_up() -> None:
    inserts = script(compiled(SPJ), parts="insert")
    everything = rows_read(inserts, sizes())
    assert everything == TABLES["links"] + TABLES["devices"]
    assert rows_read(inserts, sizes("links.pid")) == TABLES["devices"]
    # a partner that was found names the next one
    assert rows_read(inserts, sizes("links.pid", "devices.did")) == 0


def test_a_cache_is_read_unless_rows_are_found_by_a_column() -> None:
    update = script(compiled(COST), parts="update:price")
    assert rows_read(update, sizes()) == 9_000 + 7_000  # the cache of the input, and the groups
    assert rows_read(update, sizes("cache_1.p_pid")) == 7_000
    assert rows_read(update, sizes("cache_1.p_pid", "rows.did")) == 0
