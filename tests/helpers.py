"""What several test files need: compiled views without an engine, and a small warehouse on DuckDB."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import viewkeep
from viewkeep.algebra import types as t
from viewkeep.algebra.nodes import Node, Scan, walk
from viewkeep.algebra.script_nodes import Stored
from viewkeep.capture.duckdb import PLACES
from viewkeep.catalog.models import ForeignKey, Table, TableColumn
from viewkeep.frontend.binder import Bound, bind
from viewkeep.frontend.statements import parse_sql
from viewkeep.passes.compiler import Compiled, compile_view
from viewkeep.script.model import Script


def quick_java() -> dict[str, str]:
    """The environment for a Java process that soon ends: it is not compiled as one that goes on for long."""
    return {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class Crash(Exception):
    """What a test throws into a refresh."""


def crash_at(step: int, among: str = "") -> Callable[[str], None]:
    """Progress that ends a session at a step: the first, second, ... of those whose message says so."""
    steps = 0

    def crash(message: str) -> None:
        nonlocal steps
        steps += among in message
        if steps == step:
            raise Crash(message)

    return crash


def table(
    name: str, columns: str, key: str, foreign: Sequence[tuple[str, str, str]] = (), required: str = ""
) -> Table:
    """table("r", "k INT, a DECIMAL(8;2)", "k"): a semicolon stands for the comma inside a type."""
    made = []
    for column in columns.split(", "):
        column_name, _, kind = column.partition(" ")
        type_ = t.parse(kind.replace(";", ","))
        assert type_ is not None
        not_null = {*key.split(), *required.split()}
        made.append(TableColumn(column_name, type_, column_name not in not_null))
    keys = tuple(ForeignKey((own,), other, (theirs,)) for own, other, theirs in foreign)
    return Table(name, tuple(made), tuple(key.split()), keys)


PARTS = table("parts", "pid INT, price DECIMAL(10;2), label STRING", "pid")
DEVICES = table("devices", "did INT, category STRING", "did")
LINKS = table("links", "did INT, pid INT, qty INT", "did pid")
SHOP = (PARTS, DEVICES, LINKS)

SPJ = (
    "SELECT l.did, l.pid, p.price FROM parts p JOIN links l ON p.pid = l.pid "
    "JOIN devices d ON d.did = l.did WHERE d.category = 'phone'"
)
COST = (
    "SELECT l.did, SUM(p.price) AS cost FROM parts p JOIN links l ON p.pid = l.pid "
    "JOIN devices d ON d.did = l.did WHERE d.category = 'phone' GROUP BY l.did"
)


def bound(sql: str, tables: Sequence[Table] = SHOP) -> Bound:
    by_name = {x.name.lower(): x for x in tables}
    return bind(parse_sql(sql), lambda name: by_name.get(name.lower()), sql)


def compiled(sql: str, tables: Sequence[Table] = SHOP, strategy: str = "id") -> Compiled:
    return compile_view(bound(sql, tables), {x.name: x for x in tables}, strategy)


def changes(**kinds: str) -> Mapping[str, frozenset[str]]:
    """changes(parts="insert update:price"): which kinds of change a batch has."""
    return {name: frozenset(words.split()) for name, words in kinds.items()}


def fired(view: Compiled, at: type[Node], **kinds: str) -> list[str]:
    """The names of the rules that fired at operators of one type, in order."""
    _, rules = view.instantiated(changes(**kinds))
    return [diff.rule for node, diff in rules if type(node) is at]


def script(view: Compiled, **kinds: str) -> Script:
    return view.script(changes(**kinds))


def queries(made: Script) -> Iterator[Node]:
    """Every query of a script: its lets and the diffs that it applies."""
    for let in made.lets:
        yield let.query
    for apply in made.applies:
        for diff in apply.diffs:
            yield diff.query


def nodes(made: Script, *kinds: type[Node]) -> list[Node]:
    return [n for query in queries(made) for n in walk(query) if isinstance(n, kinds)]


def reads(made: Script) -> set[str]:
    """The base tables and the stored targets that a script reads."""
    found = set()
    for node in nodes(made, Scan, Stored):
        found.add(node.table if isinstance(node, Scan) else f"stored {node.target}")  # type: ignore[attr-defined]
    return found


# --- on DuckDB ---


def shop(where: str = "duckdb:") -> viewkeep.Connection:
    """parts, links and devices with a few rows."""
    vk = viewkeep.connect(where)
    vk.sql(
        """
        CREATE TABLE parts (pid INT, price DECIMAL(10,2), label STRING, PRIMARY KEY (pid));
        CREATE TABLE devices (did INT, category STRING, PRIMARY KEY (did));
        CREATE TABLE links (did INT, pid INT, qty INT, PRIMARY KEY (did, pid));
        INSERT INTO parts VALUES (1, 10.00, 'a'), (2, 20.00, 'b'), (3, 30.00, NULL);
        INSERT INTO devices VALUES (1, 'phone'), (2, 'phone'), (3, 'tablet');
        INSERT INTO links VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3), (3, 3, NULL)
        """
    )
    return vk


def contents(vk: viewkeep.Connection, name: str) -> Counter[Any]:
    """The rows of a table or view, as a bag."""
    return Counter(tuple(row) for row in con(vk).execute(f"SELECT * FROM {name}").fetchall())


def con(vk: viewkeep.Connection) -> Any:
    """DuckDB's own connection, behind viewkeep's back."""
    return vk.engine._con  # type: ignore[attr-defined]


def stored_as(view: str, target: str = "rows") -> str:
    """The SQL name of what a view stores."""
    return PLACES.target(view, target).sql(dialect="duckdb")


def log_of(name: str) -> str:
    """The SQL name of a base table's log."""
    return PLACES.log(name).sql(dialect="duckdb")


def objects(vk: viewkeep.Connection) -> set[tuple[Any, ...]]:
    """All tables and views of the database file, temporary ones left out."""
    query = (
        "SELECT 'table', schema_name, table_name FROM duckdb_tables() WHERE NOT temporary UNION ALL "
        "SELECT 'view', schema_name, view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary"
    )
    return set(con(vk).execute(query).fetchall())
