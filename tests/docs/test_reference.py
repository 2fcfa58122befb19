"""The documentation names everything there is, its links lead somewhere, and its tutorial works."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

import viewkeep
import viewkeep.cli.run
import viewkeep.cli.session
import viewkeep.errors
from viewkeep.cli.main import app
from viewkeep.frontend.functions import BUILT_IN

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

# Every form of statement that is promised to users.
STATEMENTS = [
    "CREATE TABLE",
    "PRIMARY KEY",
    "FOREIGN KEY",
    "ALTER TABLE t ADD PRIMARY KEY",
    "DROP TABLE",
    "CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] v",
    "[WITH (option = value, ...)]",
    "INSERT INTO",
    "UPDATE t SET",
    "DELETE FROM",
    "MERGE INTO",
    "REFRESH MATERIALIZED VIEW v [FULL]",
    "REFRESH MATERIALIZED VIEWS",
    "EXPLAIN MATERIALIZED VIEW v",
    "VERIFY MATERIALIZED VIEW v",
    "SHOW MATERIALIZED VIEWS",
    "DROP MATERIALIZED VIEW [IF EXISTS] v",
    "SELECT ...",
]
RESULTS = [
    viewkeep.Result,
    viewkeep.Refresh,
    viewkeep.Verification,
    viewkeep.Regression,
    viewkeep.ViewStatus,
    viewkeep.Explanation,
]


def _page(name: str) -> str:
    return (DOCS / "reference" / name).read_text(encoding="utf-8")


def _section(text: str, heading: str) -> str:
    """A heading's own text, up to the next heading of its level or a higher one."""
    level = heading.index(" ")
    start = re.search(rf"^{re.escape(heading)}$", text, re.MULTILINE)
    assert start, f"there is no heading {heading}"
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{level}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


# --- the command line ---

COMMAND = typer.main.get_command(app)
OPTIONS = [
    (name, option)
    for name, whole in COMMAND.commands.items()  # type: ignore[attr-defined]
    for command in getattr(whole, "commands", {"": whole}).values()
    for parameter in command.params
    if parameter.param_type_name == "option"
    for option in parameter.opts
]
# described once, for all commands that have them
SHARED = ("--at", "--engine", "--json", "--debug", "--help")


@pytest.mark.parametrize("name", COMMAND.commands)  # type: ignore[attr-defined]
def test_every_command_has_a_section(name: str) -> None:
    assert f"viewkeep {name}" in _section(_page("cli.md"), f"## {name}")


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_every_option_is_described(command: str, option: str) -> None:
    page = _page("cli.md")
    text = page if option in SHARED else _section(page, f"## {command}")
    assert re.search(rf"^\| `{re.escape(option)}\b", text, re.MULTILINE), f"{option} of {command}"


def test_the_options_of_the_whole_are_described() -> None:
    for parameter in COMMAND.params:
        for option in parameter.opts:
            assert option in _page("cli.md")


# --- Python ---


@pytest.mark.parametrize("name", viewkeep.__all__)
def test_every_public_name_is_described(name: str) -> None:
    assert re.search(rf"`(viewkeep\.)?{name}\b", _page("python.md"))


def test_every_method_of_a_connection_is_described() -> None:
    text = _section(_page("python.md"), "## Connection")
    methods = [n for n, _ in inspect.getmembers(viewkeep.Connection, inspect.isfunction) if n[0] != "_"]
    assert "refresh" in methods
    for name in methods:
        assert f"| `{name}(" in text, name


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_result_is_described(kind: type) -> None:
    text = _section(_page("python.md"), f"### {kind.__name__}")
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    names += [n for n, v in vars(kind).items() if isinstance(v, property)]
    names += [f"{n}()" for n, v in vars(kind).items() if inspect.isfunction(v) and n[0] != "_"]
    for name in names:
        assert f"`{name}`" in text, name


def _errors(kind: type[viewkeep.ViewkeepError]) -> Iterator[type[viewkeep.ViewkeepError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _errors(below)


@pytest.mark.parametrize("kind", list(_errors(viewkeep.ViewkeepError)), ids=lambda kind: kind.__name__)
def test_every_error_is_described(kind: type[viewkeep.ViewkeepError]) -> None:
    text = _section(_page("python.md"), "## Errors")
    assert f"`{kind.code}`" in text
    if kind.__module__ == "viewkeep.errors":
        assert f"| `{kind.__name__}` | `{kind.code}` |" in text


# --- SQL ---


@pytest.mark.parametrize("form", STATEMENTS)
def test_every_form_of_statement_is_described(form: str) -> None:
    assert form in _page("sql.md")


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_function_is_described(name: str) -> None:
    assert re.search(rf"`{name.upper()}\b", _section(_page("sql.md"), "## Expressions")), name


# --- links ---


def _links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if not re.match(r"[a-z]+:", target):
                yield page, target


def _anchors(page: Path) -> set[str]:
    """The fragments that a page's headings make, GitHub's way."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    ("page", "target"), list(_links()), ids=lambda x: x if isinstance(x, str) else x.stem
)
def test_every_link_leads_somewhere(page: Path, target: str) -> None:
    path, _, fragment = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    assert found.exists(), f"{page.name} links to {target}"
    if fragment:
        assert fragment in _anchors(found), f"{page.name} links to {target}"


def test_the_index_links_to_every_page() -> None:
    linked = {(page.parent / target.partition("#")[0]).resolve() for page, target in _links()}
    assert not [page for page in PAGES[1:] if page != DOCS / "index.md" and page.resolve() not in linked]


# --- examples ---


def _sql_blocks(page: Path) -> list[tuple[bool, str]]:
    """Each block of SQL: whether it works, and its text."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```sql( fails)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(not fails, sql) for fails, sql in blocks]


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "tutorial.md"], ids=lambda page: page.stem)
def test_the_sql_of_a_page_does_what_it_says(page: Path) -> None:
    blocks = _sql_blocks(page)
    assert blocks
    with viewkeep.connect("duckdb:") as vk:
        for works, sql in blocks:
            if works:
                vk.sql(sql)
            else:
                with pytest.raises(viewkeep.ViewkeepError):
                    vk.sql(sql)
        assert vk.verify("device_cost")


def test_the_page_on_regression_does_what_it_says() -> None:
    page = DOCS / "regression.md"
    calls = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    with viewkeep.connect("duckdb:") as vk:
        for _, sql in _sql_blocks(page):
            vk.sql(sql)
        names: dict[str, object] = {"vk": vk}
        for call in calls:
            exec(call, names)
        model = names["model"]
        assert isinstance(model, viewkeep.Regression)
        assert list(model.coefficients) == ["area", "rooms", "distance"]
        assert model.predict({"area": 60, "rooms": 3, "distance": 2.0}) == pytest.approx(245, abs=5)
        models = vk.regression("by_postcode", "price")
        assert isinstance(models, dict)
        assert set(models) == {(10,), (20,)}


def test_the_example_of_the_python_reference_works() -> None:
    [example] = re.findall(r"^```python\n(with .*?)^```", _page("python.md"), re.MULTILINE | re.DOTALL)
    exec(example, {"viewkeep": viewkeep})
