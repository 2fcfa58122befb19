"""spark-pipeline.yml, by the rules of PySpark's own loader."""

from __future__ import annotations

from pathlib import Path

import pytest

from viewkeep.pipelines.errors import PipelineProblem
from viewkeep.pipelines.spec import find_spec, load_spec


def _spec(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "spark-pipeline.yml"
    path.write_text(text)
    return path


def test_everything_in_a_spec(tmp_path: Path) -> None:
    text = (
        "name: shop\nstorage: s\ncatalog: c\nschema: d\nconfiguration: {a.b: 'true'}\n"
        "libraries:\n  - glob: {include: transformations/**}\n  - glob: {include: one.sql}\n"
    )
    spec = load_spec(_spec(tmp_path, text))
    assert (spec.name, spec.catalog, spec.database) == ("shop", "c", "d")
    assert spec.configuration == {"a.b": "true"}
    assert spec.globs == ("transformations/**/*", "one.sql")


def test_files_are_found_once_in_order_without_what_python_makes(tmp_path: Path) -> None:
    for name in ("t/b.sql", "t/a/deep.py", "t/__pycache__/a.pyc", "other.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    text = "name: n\nstorage: s\nlibraries:\n  - glob: {include: t/**}\n  - glob: {include: t/b.sql}\n"
    spec = load_spec(_spec(tmp_path, text))
    assert [str(file.relative_to(tmp_path)) for file in spec.files()] == ["t/a/deep.py", "t/b.sql"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("storage: s", "name is missing"),
        ("name: n", "storage is missing"),
        ("name: n\nstorage: s\nlibrary: []", "no field library"),
        ("name: n\nstorage: s\nconfiguration: [a]", "no mapping"),
        ("name: n\nstorage: s\nconfiguration: {a: 1}", "is no text"),
        (
            "name: n\nstorage: s\nlibraries: [{glob: {include: 't/**/*.py'}}]",
            "neither a file nor a directory",
        ),
        ("name: n\nstorage: s\nlibraries: [{file: x}]", "is no library"),
        ("- a", "no mapping of fields"),
        ("a: [", "no YAML"),
    ],
)
def test_what_is_wrong_with_a_spec_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PipelineProblem, match=message) as problem:
        load_spec(_spec(tmp_path, text))
    assert problem.value.hint
    assert "spark-pipeline.yml" in problem.value.message


def test_a_spec_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PipelineProblem, match="cannot be read"):
        load_spec(tmp_path / "spark-pipeline.yml")


def test_the_nearest_spec_is_found_from_below_and_two_are_one_too_many(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    with pytest.raises(PipelineProblem, match="there is no"):
        find_spec(below)
    path = _spec(tmp_path, "name: n\nstorage: s\n")
    assert find_spec(below) == path
    (tmp_path / "spark-pipeline.yaml").touch()
    with pytest.raises(PipelineProblem, match="has both"):
        find_spec(below)
