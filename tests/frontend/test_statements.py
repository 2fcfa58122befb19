"""viewkeep's own statements: how they are read, and where their errors are."""

from __future__ import annotations

import pytest

from viewkeep.errors import Place, SyntaxProblem
from viewkeep.frontend.statements import (
    CreateView,
    OnView,
    Plain,
    parse,
    parse_sql,
    place_at,
    split,
)


@pytest.mark.parametrize(
    ("text", "verb", "name", "full", "if_exists"),
    [
        ("REFRESH MATERIALIZED VIEW v", "refresh", "v", False, False),
        ("REFRESH MATERIALIZED VIEW v FULL", "refresh", "v", True, False),
        ("refresh Materialized view V full", "refresh", "V", True, False),
        ("REFRESH MATERIALIZED VIEWS", "refresh", None, False, False),
        ("SHOW MATERIALIZED VIEWS", "show", None, False, False),
        ("show materialized views;", "show", None, False, False),
        ("EXPLAIN MATERIALIZED VIEW v", "explain", "v", False, False),
        ("VERIFY MATERIALIZED VIEW v", "verify", "v", False, False),
        ("DROP MATERIALIZED VIEW v", "drop", "v", False, False),
        ("DROP MATERIALIZED VIEW IF EXISTS v", "drop", "v", False, True),
        ("DROP MATERIALIZED VIEW s.v", "drop", "s.v", False, False),
        ("REFRESH MATERIALIZED VIEW `a b` FULL", "refresh", "a b", True, False),
        ("REFRESH MATERIALIZED VIEW full", "refresh", "full", False, False),
        ("REFRESH MATERIALIZED VIEW full FULL", "refresh", "full", True, False),
        ("REFRESH -- one\n MATERIALIZED /* two */ VIEW\n\tv", "refresh", "v", False, False),
        ("EXPLAIN MATERIALIZED VIEW v -- why\n", "explain", "v", False, False),
    ],
)
def test_statements_on_views(text: str, verb: str, name: str | None, full: bool, if_exists: bool) -> None:
    made = parse(text)
    assert isinstance(made, OnView)
    assert (made.verb, made.name, made.full, made.if_exists) == (verb, name, full, if_exists)


@pytest.mark.parametrize(
    ("text", "name", "options", "replace", "if_not_exists"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 AS x", "v", {}, False, False),
        ("create or replace materialized view v as SELECT 1 AS x", "v", {}, True, False),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1 AS x", "v", {}, False, True),
        ("CREATE MATERIALIZED VIEW `as` AS SELECT 1 AS x", "as", {}, False, False),
        ("CREATE MATERIALIZED VIEW `s`.`my view` AS SELECT 1 AS x", "s.my view", {}, False, False),
        (
            "CREATE MATERIALIZED VIEW v WITH (strategy = 'tuple') AS SELECT 1 AS x",
            "v", {"strategy": "tuple"}, False, False,
        ),
        (
            "CREATE MATERIALIZED VIEW v WITH (STRATEGY = tuple, other=3) AS SELECT 1 AS x",
            "v", {"strategy": "tuple", "other": "3"}, False, False,
        ),
        (
            "CREATE MATERIALIZED VIEW v -- c\n WITH ( /* o */ strategy\n= \"id\" )\nAS\n SELECT 1 AS x",
            "v", {"strategy": "id"}, False, False,
        ),
    ],
)  # fmt: skip
def test_create(text: str, name: str, options: dict[str, str], replace: bool, if_not_exists: bool) -> None:
    made = parse(text)
    assert isinstance(made, CreateView)
    assert (made.name, made.options, made.replace, made.if_not_exists) == (
        name,
        options,
        replace,
        if_not_exists,
    )
    assert made.query == "SELECT 1 AS x"
    assert text[made.query_start :].startswith("SELECT")


def test_the_query_may_start_with_a_cte_or_a_bracket() -> None:
    made = parse("CREATE MATERIALIZED VIEW v AS WITH a AS (SELECT 1 AS x) SELECT * FROM a")
    assert isinstance(made, CreateView)
    assert made.options == {}
    assert made.query.startswith("WITH a AS")
    made = parse("CREATE MATERIALIZED VIEW v AS (SELECT 1 AS x)")
    assert isinstance(made, CreateView)
    assert made.query == "(SELECT 1 AS x)"


def test_strings_with_keywords_and_semicolons_are_strings() -> None:
    (made,) = [
        parse(s) for s in split("CREATE MATERIALIZED VIEW v AS SELECT 'x; DROP MATERIALIZED VIEW v' AS x;")
    ]
    assert isinstance(made, CreateView)
    assert made.query == "SELECT 'x; DROP MATERIALIZED VIEW v' AS x"


def test_a_semicolon_in_a_comment_ends_nothing() -> None:
    assert len(list(split("SELECT 1 -- a; b\n; SELECT /* c; d */ 2;;"))) == 2


def test_split_counts_lines() -> None:
    text = "-- first\nSELECT 1;\n\n/* two\nlines */ SELECT\n 2; SELECT 3"
    assert [(s.text, s.first_line) for s in split(text)] == [
        ("SELECT 1", 2),
        ("SELECT\n 2", 5),
        ("SELECT 3", 6),
    ]


def test_show_and_explain_do_not_swallow_what_follows() -> None:
    kinds = [type(parse(s)) for s in split("SHOW MATERIALIZED VIEWS; EXPLAIN MATERIALIZED VIEW v; SELECT 1")]
    assert kinds == [OnView, OnView, Plain]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "DROP TABLE t",
        "CREATE VIEW v AS SELECT 1",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "REFRESH TABLE t",
    ],
)
def test_other_sql_is_left_alone(text: str) -> None:
    assert isinstance(parse(text), Plain)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("REFRESH MATERIALIZED VIEW", Place(1, 22)),
        ("REFRESH MATERIALIZED VIEW v w", Place(1, 29)),
        ("REFRESH MATERIALIZED VIEW v FULL\n x", Place(2, 2)),
        ("REFRESH MATERIALIZED VIEW v-1", Place(1, 28)),
        ("REFRESH MATERIALIZED VIEWS v", Place(1, 28)),
        ("VERIFY MATERIALIZED VIEWS", Place(1, 21)),
        ("EXPLAIN MATERIALIZED VIEWS", Place(1, 22)),
        ("DROP MATERIALIZED VIEWS", Place(1, 19)),
        ("CREATE MATERIALIZED VIEW", Place(1, 21)),
        ("CREATE MATERIALIZED VIEW v", Place(1, 26)),
        ("CREATE MATERIALIZED VIEW v AS", Place(1, 28)),
        ("CREATE MATERIALIZED VIEW v SELECT 1", Place(1, 28)),
        ("CREATE MATERIALIZED VIEW v\nWITH strategy = 'id' AS SELECT 1", Place(2, 6)),
        ("CREATE MATERIALIZED VIEW v WITH (strategy) AS SELECT 1", Place(1, 42)),
        ("CREATE MATERIALIZED VIEW v WITH () AS SELECT 1", Place(1, 34)),
        ("CREATE MATERIALIZED VIEW v WITH (a = 1 b = 2) AS SELECT 1", Place(1, 40)),
        ("SHOW MATERIALIZED VIEWS x", Place(1, 25)),
    ],
)
def test_mistakes_have_a_place_and_a_hint(text: str, place: Place) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse(text)
    assert caught.value.place == place
    assert caught.value.hint


@pytest.mark.parametrize(
    "text", ["SELECT 'open", "SELECT `open", "SELECT /* open", "SELECT * FROM (", "SELECT a b c FROM t", ""]
)
def test_what_cannot_be_read_is_a_syntax_problem(text: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse(text) if text else parse_sql(text)
    assert caught.value.code == "syntax"
    assert caught.value.hint


def test_syntax_errors_in_the_query_have_the_place_in_the_whole_statement() -> None:
    text = "CREATE MATERIALIZED VIEW v AS\n  SELECT a\n    FROM t WHERE (a = 1"
    made = parse(text)
    assert isinstance(made, CreateView)
    with pytest.raises(SyntaxProblem) as caught:
        parse_sql(made.query, start=made.query_start, whole=made.text)
    assert caught.value.place is not None
    assert caught.value.place.line == 3


def test_more_than_one_statement_where_one_is_wanted() -> None:
    with pytest.raises(SyntaxProblem):
        parse_sql("SELECT 1; SELECT 2")


def test_place_at() -> None:
    assert place_at("ab\ncd", 0) == Place(1, 1)
    assert place_at("ab\ncd", 3) == Place(2, 1)
    assert place_at("ab\r\ncd", 5) == Place(2, 2)
    assert place_at("é\nçd", 3) == Place(2, 2)
