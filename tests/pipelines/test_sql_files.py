"""SQL files of a project: headers with all clauses of Spark's pipelines, and what defines no view."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from viewkeep.pipelines.elements import Elements, own_properties
from viewkeep.pipelines.sql_files import read_sql


def _read(tmp_path: Path, text: str) -> Elements:
    (tmp_path / "f.sql").write_text(text)
    found = Elements()
    read_sql(tmp_path / "f.sql", "f.sql", found)
    return found


def test_views_are_found_with_their_lines_and_queries(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        "-- first\nCREATE MATERIALIZED VIEW IF NOT EXISTS db.a AS\nSELECT ';' AS x FROM t;\n\n"
        "CREATE OR REPLACE TEMP VIEW `b c` AS WITH q AS (SELECT 1 AS one) SELECT * FROM q",
    )
    first, second = found.views
    assert (first.name, first.where.line, first.temporary) == ("db.a", 2, False)
    assert first.query == "SELECT ';' AS x FROM t"
    assert first.statement is not None
    assert first.statement.text[first.query_start :] == first.query
    assert (second.name, second.where.line, second.temporary) == ("b c", 5, True)
    assert second.query.startswith("WITH q AS (")
    assert found.complete
    assert not found.refused


def test_clauses_of_storage_are_told_and_options_of_viewkeep_taken(tmp_path: Path) -> None:
    (view,) = _read(
        tmp_path,
        "CREATE MATERIALIZED VIEW v USING delta PARTITIONED BY (a, b) COMMENT 'as (it) is'\n"
        "TBLPROPERTIES ('viewkeep.refresh_policy' = 'incremental', my.own = 'x') AS SELECT a FROM t",
    ).views
    assert view.unused == ("partitioned by", "comment", "tblproperties")
    assert own_properties(view.properties)[0] == {"refresh_policy": "incremental"}
    assert view.query == "SELECT a FROM t"


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("CREATE STREAMING TABLE s AS SELECT 1", "s", "streaming table"),
        ("CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1", "f", "streaming table or flow"),
        ("CREATE VIEW p AS SELECT 1", "p", "plain view"),
        ("CREATE MATERIALIZED VIEW v (a INT) AS SELECT 1 AS a", "v", "lists its columns"),
        ("CREATE MATERIALIZED VIEW v", "v", "query of v is missing"),
        ("CREATE MATERIALIZED VIEW v COMMENT", "v", "query of v is missing"),
        ("CREATE MATERIALIZED VIEW v AS", "v", "query of v is missing"),
        ("CREATE TABLE t (a INT)", "f.sql", "CREATE TABLE defines no view"),
        ("USE db", "f.sql", "USE defines no view"),
    ],
)
def test_what_defines_no_view_is_refused(tmp_path: Path, text: str, name: str, message: str) -> None:
    found = _read(tmp_path, f"CREATE MATERIALIZED VIEW ok AS SELECT a FROM t;\n{text}")
    assert [view.name for view in found.views] == ["ok"]
    (refused,) = found.refused
    assert refused.name == name
    assert message in refused.error.message
    assert refused.error.hint
    assert refused.where is not None
    assert refused.where.line == 2
    assert found.complete is (name != "f.sql"), "where no name was read, a view may be missing"


def test_a_file_that_cannot_be_read_leaves_the_project_incomplete(tmp_path: Path) -> None:
    found = _read(tmp_path, "CREATE MATERIALIZED VIEW v AS SELECT 'open FROM t")
    assert not found.complete
    assert found.refused[0].error.code == "syntax"
