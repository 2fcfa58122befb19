"""Bad input and damaged files: the right error, a hint, and nothing half done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewkeep
from viewkeep import errors

from .helpers import COST, SPJ, con, contents, log_of, objects, shop, stored_as

NAMES = ("parts", "devices", "links", "v")


@pytest.fixture
def vk() -> Iterator[viewkeep.Connection]:
    with shop() as made:
        made.sql(f"CREATE MATERIALIZED VIEW v AS {COST}")
        yield made


@pytest.fixture(scope="module")
def shared() -> Iterator[viewkeep.Connection]:
    """One warehouse for all statements that are refused, since they leave it as it was."""
    with shop() as made:
        made.sql(f"CREATE MATERIALIZED VIEW v AS {COST}")
        yield made


def everything(vk: viewkeep.Connection) -> dict[str, Any]:
    """All contents, what waits for a refresh, and all that is stored."""
    found: dict[str, Any] = {name: contents(vk, name) for name in NAMES}
    found["objects"] = objects(vk)
    found["status"] = [(s.view, s.rows, s.pending) for s in vk.status()]
    return found


def refused(
    vk: viewkeep.Connection, statement: str, kind: type[viewkeep.ViewkeepError]
) -> viewkeep.ViewkeepError:
    before = everything(vk)
    with pytest.raises(viewkeep.ViewkeepError) as caught:
        vk.sql(statement)
    assert type(caught.value) is kind, repr(caught.value)
    assert caught.value.code == kind.code
    assert caught.value.message
    assert caught.value.hint
    assert caught.value.hint in str(caught.value)
    assert everything(vk) == before
    vk.sql("UPDATE parts SET price = price + 1")  # the connection still works
    vk.refresh()
    assert contents(vk, "v") == contents(vk, f"({COST})")
    return caught.value


def test_codes_are_distinct() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.ViewkeepError)]
    assert len({k.code for k in kinds}) == len(kinds)


def test_diffs_by_id_of_a_table_without_a_key(vk: viewkeep.Connection) -> None:
    vk.sql("CREATE TABLE keyless (a INT)")
    asked = "CREATE MATERIALIZED VIEW w WITH (strategy = 'id') AS\nSELECT a FROM keyless"
    assert "PRIMARY KEY" in refused(vk, asked, errors.NoKey).hint


def test_the_hint_for_a_table_without_a_key_works(vk: viewkeep.Connection) -> None:
    vk.sql("CREATE TABLE keyless (a INT NOT NULL, b INT); INSERT INTO keyless VALUES (1, 2)")
    vk.sql("ALTER TABLE keyless ADD PRIMARY KEY (a)")
    vk.sql("CREATE MATERIALIZED VIEW w AS SELECT b FROM keyless")
    assert vk.sql("SELECT * FROM w").rows == ((2,),)


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("SELECT nope FROM parts", errors.UnknownColumn),
        ("SELECT p.pid FROM parts p WHERE p.nope = 1", errors.UnknownColumn),
        ("SELECT pid FROM nope", errors.UnknownTable),
        ("SELECT pid FROM parts, links", errors.AmbiguousColumn),
        ("SELECT pid, price AS pid FROM parts", errors.AmbiguousColumn),
        ("SELECT pid + label AS x FROM parts", errors.TypeMismatch),
        ("SELECT pid FROM parts WHERE price", errors.TypeMismatch),
        ("SELECT RAND() AS x FROM parts", errors.Unsupported),
        ("SELECT 1 AS x", errors.Unsupported),
        ("SELECT pid FROM parts WHERE", errors.SyntaxProblem),
        ("UPDATE parts SET price = 1", errors.Unsupported),
        ("SELECT pid, 2147483647 + pid AS x FROM parts", errors.EngineError),
    ],
)
def test_views_that_are_refused(
    shared: viewkeep.Connection, query: str, kind: type[viewkeep.ViewkeepError]
) -> None:
    problem = refused(shared, f"CREATE MATERIALIZED VIEW w AS {query}", kind)
    if kind not in (errors.EngineError,) and query != "SELECT did FROM v":
        assert problem.place is not None
        assert problem.place.column > len("CREATE MATERIALIZED VIEW w AS ")


def test_places_count_from_the_start_of_their_statement(vk: viewkeep.Connection) -> None:
    """As in the JSON form, whose n says which statement it was."""
    problem = refused(
        vk, "SELECT 1 AS x;\n\nCREATE MATERIALIZED VIEW w AS\nSELECT nope FROM parts", errors.UnknownColumn
    )
    assert problem.place == errors.Place(2, 8)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT pid FROM parts", errors.AlreadyExists),
        ("CREATE MATERIALIZED VIEW parts AS SELECT pid FROM parts", errors.AlreadyExists),
        ("CREATE MATERIALIZED VIEW w WITH (strategy = 'x') AS SELECT pid FROM parts", errors.Unsupported),
        ("CREATE TABLE v (a INT, PRIMARY KEY (a))", errors.AlreadyExists),
        ("CREATE TABLE parts (a INT, PRIMARY KEY (a))", errors.AlreadyExists),
        ("CREATE OR REPLACE TABLE parts (a INT, PRIMARY KEY (a))", errors.AlreadyExists),
        ("CREATE TABLE z (a INT, PRIMARY KEY (b))", errors.UnknownColumn),
        ("CREATE TABLE z (a INT, A INT)", errors.TypeMismatch),
        ("CREATE TABLE z (a BINARY)", errors.Unsupported),
        ("CREATE TABLE z (a ARRAY<INT>)", errors.Unsupported),
        ("CREATE TABLE z (a INT CHECK (a > 1))", errors.Unsupported),
        ("CREATE TABLE z", errors.SyntaxProblem),
        ("CREATE TABLE z AS SELECT nope FROM parts", errors.UnknownColumn),
        ("DROP TABLE parts", errors.DependentViews),
        ("DROP TABLE IF EXISTS Parts", errors.DependentViews),
        ("ALTER TABLE parts DROP COLUMN price", errors.DependentViews),
        ("ALTER TABLE parts DROP COLUMN label", errors.DependentViews),
        ("ALTER TABLE nope ADD PRIMARY KEY (a)", errors.UnknownTable),
        ("ALTER TABLE parts ADD PRIMARY KEY (nope)", errors.UnknownColumn),
        ("DROP MATERIALIZED VIEW nope", errors.UnknownView),
        ("REFRESH MATERIALIZED VIEW nope", errors.UnknownView),
        ("INSERT INTO parts VALUES (1, 5, 'x')", errors.DuplicateKey),
        ("INSERT INTO parts VALUES (7, 5, 'x'), (7, 6, 'y')", errors.DuplicateKey),
        ("INSERT INTO parts VALUES (7, 5, 'x'), (1, 6, 'y')", errors.DuplicateKey),
        ("UPDATE parts SET pid = 2 WHERE pid = 1", errors.DuplicateKey),
        ("UPDATE parts SET pid = 9", errors.DuplicateKey),
        ("INSERT INTO parts VALUES (NULL, 5, 'x')", errors.EngineError),
        ("INSERT INTO parts VALUES (7)", errors.EngineError),
        ("UPDATE parts SET nope = 1", errors.UnknownColumn),
        ("UPDATE parts SET price = 'x'", errors.EngineError),
        ("DELETE FROM parts WHERE nope = 1", errors.UnknownColumn),
        ("INSERT INTO nope VALUES (1)", errors.UnknownTable),
        ("UPDATE v SET cost = 1", errors.Unsupported),
        ("DELETE FROM V", errors.Unsupported),
        ("INSERT INTO v VALUES (1, 1)", errors.Unsupported),
        ("MERGE INTO v USING parts ON v.did = parts.pid WHEN MATCHED THEN DELETE", errors.Unsupported),
        ("SELECT 'open", errors.SyntaxProblem),
        ("SELECT * FROM (", errors.SyntaxProblem),
    ],
)
def test_statements_that_are_refused(
    shared: viewkeep.Connection, statement: str, kind: type[viewkeep.ViewkeepError]
) -> None:
    refused(shared, statement, kind)


def test_queries_that_are_refused(vk: viewkeep.Connection) -> None:
    for query in ("SELECT nope FROM parts", "SELECT * FROM nope"):
        with pytest.raises(viewkeep.ViewkeepError) as caught:
            vk.sql(query)
        assert caught.value.hint


@pytest.mark.parametrize("kind", ["DECIMAL(40,2)", "DECIMAL(5,7)"])
def test_decimals_that_there_are_not(vk: viewkeep.Connection, kind: str) -> None:
    with pytest.raises((errors.Unsupported, errors.TypeMismatch)):
        vk.sql(f"CREATE TABLE z (a {kind})")


def test_or_replace_that_fails_leaves_the_old_view(shared: viewkeep.Connection) -> None:
    refused(
        shared,
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT pid, 2147483647 + pid AS x FROM parts",
        errors.EngineError,
    )


def test_or_replace_that_is_refused_leaves_the_old_view(shared: viewkeep.Connection) -> None:
    refused(shared, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT nope FROM parts", errors.UnknownColumn)


def test_drop_view_is_no_drop_materialized_view(vk: viewkeep.Connection) -> None:
    try:
        vk.sql("DROP VIEW v")
    except viewkeep.ViewkeepError as problem:
        assert problem.hint  # noqa: PT017
    vk.refresh()
    assert contents(vk, "v") == contents(vk, f"({COST})")


def test_transactions_of_the_users_own(vk: viewkeep.Connection) -> None:
    try:
        vk.sql("BEGIN")
        vk.sql("UPDATE parts SET price = 1")
        vk.sql("COMMIT")
    except viewkeep.ViewkeepError as problem:
        assert problem.hint  # noqa: PT017
    vk.refresh()
    assert contents(vk, "v") == contents(vk, f"({COST})")


# --- a refresh that cannot be computed ---


def raises_on_refresh(vk: viewkeep.Connection, *kinds: type[viewkeep.ViewkeepError]) -> None:
    before = everything(vk)
    with pytest.raises(viewkeep.ViewkeepError) as caught:
        vk.refresh()
    assert type(caught.value) in kinds, repr(caught.value)
    assert caught.value.hint
    assert everything(vk) == before


def test_an_overflow_in_a_refresh(vk: viewkeep.Connection) -> None:
    vk.sql("CREATE MATERIALIZED VIEW w AS SELECT did, qty + qty AS q FROM links")
    vk.sql("UPDATE links SET qty = 2147483647")
    raises_on_refresh(vk, errors.EngineError)


def test_an_overflow_in_a_refresh_leaves_the_old_view_and_can_be_mended(vk: viewkeep.Connection) -> None:
    vk.sql("CREATE MATERIALIZED VIEW w AS SELECT did, qty + qty AS q FROM links")
    before = contents(vk, "w"), contents(vk, "v")
    vk.sql("UPDATE links SET qty = 2147483647; UPDATE parts SET price = 1")
    with pytest.raises(Exception, match="verflow"):
        vk.refresh()
    assert (contents(vk, "w"), contents(vk, "v")) == before
    vk.sql("UPDATE links SET qty = 5")
    vk.refresh()
    assert contents(vk, "w") == contents(vk, "(SELECT did, qty + qty FROM links)")
    assert contents(vk, "v") == contents(vk, f"({COST})")


# --- base tables changed behind viewkeep's back ---


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE parts",
        "ALTER TABLE parts RENAME TO spares",
        "ALTER TABLE parts DROP COLUMN price",
        "ALTER TABLE parts RENAME price TO cost",
        "ALTER TABLE parts ALTER price TYPE DOUBLE",
        "DROP TABLE parts; CREATE TABLE parts (pid INT, price DECIMAL(10,2), label VARCHAR)",
        "DROP TABLE parts; CREATE TABLE parts (pid INT, price DECIMAL(10,2) PRIMARY KEY, label VARCHAR)",
    ],
)
@pytest.mark.parametrize("call", ["refresh", "full", "verify"])
def test_a_base_table_that_changed(vk: viewkeep.Connection, damage: str, call: str) -> None:
    vk.sql("UPDATE links SET qty = 0")
    con(vk).execute(damage)
    rows, stored = contents(vk, "v"), objects(vk)
    with pytest.raises(errors.BaseTableChanged) as caught:
        vk.verify("v") if call == "verify" else vk.refresh(full=call == "full")
    assert "parts" in caught.value.message
    assert caught.value.hint
    assert contents(vk, "v") == rows
    assert objects(vk) == stored
    vk.sql("DROP MATERIALIZED VIEW v")
    assert vk.status() == []


@pytest.mark.parametrize(
    "change", ["ALTER TABLE parts DROP COLUMN label", "ALTER TABLE parts ALTER label TYPE INT USING 1"]
)
def test_columns_that_no_view_reads_may_change(vk: viewkeep.Connection, change: str) -> None:
    con(vk).execute(change)
    vk.sql("UPDATE parts SET price = 77 WHERE pid = 1")
    vk.refresh()
    assert contents(vk, "v") == contents(vk, f"({COST})")


def test_a_new_column_that_no_view_reads(vk: viewkeep.Connection) -> None:
    con(vk).execute("ALTER TABLE parts ADD COLUMN weight INT")
    vk.sql("UPDATE parts SET price = 77 WHERE pid = 1")
    vk.refresh()
    assert contents(vk, "v") == contents(vk, f"({COST})")


@pytest.mark.xfail(
    strict=True, reason="a table dropped and made again with the same columns passes for the old one"
)
def test_a_base_table_that_was_replaced(vk: viewkeep.Connection) -> None:
    con(vk).execute(
        "DROP TABLE parts; CREATE TABLE parts (pid INT PRIMARY KEY, price DECIMAL(10,2), label VARCHAR)"
    )
    with pytest.raises(errors.BaseTableChanged):
        vk.refresh()


def test_status_of_a_view_whose_table_is_gone(vk: viewkeep.Connection) -> None:
    con(vk).execute("DROP TABLE parts")
    (status,) = vk.status()
    assert status.view == "v"
    assert status.stale
    assert "parts" in status.problem


# --- the catalog ---


def reopened(path: Path, damage: str) -> None:
    with shop(f"duckdb:{path}") as vk:
        vk.sql(f"CREATE MATERIALIZED VIEW v AS {SPJ}")
        vk.sql("UPDATE parts SET price = 1")
    raw = duckdb.connect(str(path))
    raw.execute(damage)
    raw.close()
    try:
        with viewkeep.connect(f"duckdb:{path}") as vk:
            vk.refresh()
    finally:
        raw = duckdb.connect(str(path))  # nothing holds the file, and the tables are as they were
        assert raw.execute("SELECT count(*), sum(price) FROM parts").fetchone() == (3, 3)
        assert raw.execute("SELECT count(*) FROM links").fetchone() == (4,)
        raw.close()


CORRUPT = [
    "UPDATE viewkeep.views SET doc = 'not json'",
    "UPDATE viewkeep.views SET doc = '[]'",
    "UPDATE viewkeep.views SET doc = '{}'",
    "UPDATE viewkeep.views SET doc = NULL",
    "UPDATE viewkeep.views SET doc = replace(doc, '\"format\": 1', '\"format\": 99')",
    "UPDATE viewkeep.views SET doc = replace(doc, '\"columns\"', '\"kolumns\"')",
    "UPDATE viewkeep.views SET doc = replace(doc, '\"sql\"', '\"query\"')",
    "UPDATE viewkeep.tables SET doc = 'x'",
    "UPDATE viewkeep.meta SET value = 99 WHERE key = 'format'",
    "DELETE FROM viewkeep.meta WHERE key = 'format'",
    "DROP TABLE viewkeep.views",
    "DROP TABLE viewkeep.meta",
    "ALTER TABLE viewkeep.views RENAME doc TO dok",
]


@pytest.mark.parametrize("damage", CORRUPT)
def test_a_corrupt_catalog(tmp_path: Path, damage: str) -> None:
    with pytest.raises(errors.CorruptCatalog) as caught:
        reopened(tmp_path / "shop.db", damage)
    assert caught.value.code == "corrupt_catalog"
    assert caught.value.hint


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM viewkeep.meta WHERE key = 'seq'",  # TypeError
        "DROP TABLE viewkeep.tables",  # duckdb.CatalogException
        f"DROP TABLE {stored_as('v')}",  # duckdb.CatalogException
        f"DROP TABLE {log_of('parts')}",  # duckdb.CatalogException
        "UPDATE viewkeep.views SET watermark = NULL",  # TypeError
        "UPDATE viewkeep.views SET watermark = 99",  # silently `none`
        "UPDATE viewkeep.views SET doc = replace(doc, 'SELECT', 'SELEKT')",  # syntax
        'UPDATE viewkeep.views SET doc = replace(doc, \'"options": {\', \'"options": 5, "x": {\')',  # TypeError
    ],
)
def test_a_corrupt_catalog_that_is_not_told(tmp_path: Path, damage: str) -> None:
    with pytest.raises((errors.CorruptCatalog, errors.BaseTableChanged)) as caught:
        reopened(tmp_path / "shop.db", damage)
    assert caught.value.hint


# --- the file ---


def test_a_file_that_another_process_holds(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with shop(f"duckdb:{path}") as vk:
        vk.sql(f"CREATE MATERIALIZED VIEW v AS {SPJ}")
        rows = contents(vk, "v")
    script = (
        f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(errors.WarehouseHeld) as caught:
            viewkeep.connect(f"duckdb:{path}")
        assert str(path) in caught.value.message
        assert caught.value.hint
    finally:
        holder.stdin.close()
        holder.wait(timeout=20)
        holder.stdout.close()
    with viewkeep.connect(f"duckdb:{path}") as vk:
        assert contents(vk, "v") == rows


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.write_bytes(b"this is no database" * 1000)
    before = path.read_bytes()
    with pytest.raises(errors.EngineError) as caught:
        viewkeep.connect(f"duckdb:{path}")
    assert caught.value.hint
    assert path.read_bytes() == before


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(errors.EngineError):
        viewkeep.connect(f"duckdb:{tmp_path / 'no' / 'shop.db'}")


@pytest.mark.parametrize("where", ["", "shop.db", "mysql:x", "postgresql://x", 5, None])
def test_addresses_that_there_are_not(where: Any) -> None:
    with pytest.raises(viewkeep.ViewkeepError) as caught:
        viewkeep.connect(where)
    assert caught.value.hint


@pytest.mark.parametrize(
    "statement",
    ["SELECT nope FROM parts", "SELECT p.nope FROM parts AS p", "UPDATE parts SET nope = 1",
     "INSERT INTO parts (nope) VALUES (1)", "DELETE FROM parts WHERE nope = 1"],
)  # fmt: skip
def test_a_column_that_is_not_there_in_any_statement(statement: str) -> None:
    with shop() as vk, pytest.raises(errors.UnknownColumn, match="nope"):
        vk.sql(statement)


def test_a_view_is_not_dropped_as_a_table() -> None:
    with shop() as vk:
        vk.sql("CREATE MATERIALIZED VIEW v AS SELECT pid FROM parts")
        with pytest.raises(errors.Unsupported, match="v is a materialized view") as caught:
            vk.sql("DROP TABLE v")
        assert caught.value.hint == "DROP MATERIALIZED VIEW v"
        assert vk.verify("v")


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("CREATE TABLE w ()", errors.SyntaxProblem),
        ("CREATE TABLE w AS SELECT pid, pid FROM parts", errors.TypeMismatch),
        ("CREATE TABLE `w.x` (k INT)", errors.Unsupported),
        ("CREATE TABLE nowhere.w (k INT)", errors.UnknownTable),
        ("USE nowhere", errors.Unsupported),
    ],
)
def test_tables_that_cannot_be_made(
    shared: viewkeep.Connection, statement: str, problem: type[errors.ViewkeepError]
) -> None:
    before = everything(shared)
    with pytest.raises(problem) as caught:
        shared.sql(statement)
    assert caught.value.hint
    assert everything(shared) == before


def test_a_schema_that_was_dropped_with_its_views_is_told() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE SCHEMA sc; CREATE TABLE sc.t (k INT, PRIMARY KEY (k))")
        vk.sql("CREATE MATERIALIZED VIEW sc.v AS SELECT k FROM sc.t")
        con(vk).execute("DROP SCHEMA sc CASCADE")
        assert "does not exist" in vk.status()[0].problem
        vk.sql("DROP MATERIALIZED VIEW sc.v")
        assert vk.status() == []


def test_a_comment_on_a_column_is_accepted() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE t (k INT COMMENT 'the key' PRIMARY KEY, a INT NOT NULL COMMENT 'more')")
        vk.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
