"""spark-pipeline.yml: which files a project has, and the catalog, database and settings they are read in.

The rules are those of PySpark's own loader, which cannot be used here: it cannot be imported without Spark
Connect.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewkeep.errors import Unavailable
from viewkeep.pipelines.errors import PipelineProblem

SPEC_NAMES = ("spark-pipeline.yaml", "spark-pipeline.yml")
_FIELDS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
_REQUIRED = ("name", "storage")


@dataclass(frozen=True)
class Spec:
    """A pipeline project as its spec describes it."""

    path: Path
    name: str
    catalog: str | None
    database: str | None
    configuration: Mapping[str, str]
    globs: tuple[str, ...]

    @property
    def root(self) -> Path:
        """The directory that the project's paths start from."""
        return self.path.parent

    def files(self) -> Iterator[Path]:
        """The files with definitions, each once, in an order that does not depend on the file system."""
        found = {
            path
            for pattern in self.globs
            for path in self.root.glob(pattern)
            if path.is_file() and "__pycache__" not in path.parts
        }
        yield from sorted(found)


def find_spec(start: Path) -> Path:
    """The spec of the directory, or of the nearest one above it that has one."""
    for directory in (start, *start.parents):
        found = [directory / name for name in SPEC_NAMES if (directory / name).is_file()]
        if len(found) > 1:
            raise PipelineProblem(
                f"{directory} has both {found[0].name} and {found[1].name}", hint="name one with --spec"
            )
        if found:
            return found[0]
    raise PipelineProblem(
        f"there is no {SPEC_NAMES[1]} in {start}, nor above it",
        hint="run this in the project's directory, or name the file with --spec",
    )


def load_spec(path: Path) -> Spec:
    """Reads a spec, and says what is wrong with it."""
    path = path.resolve()
    doc = _read(path)
    if not isinstance(doc, dict):
        raise _wrong(path, "it is no mapping of fields")
    for field in doc:
        if field not in _FIELDS:
            raise _wrong(path, f"there is no field {field}", f"fields: {', '.join(_FIELDS)}")
    for field in _REQUIRED:
        if field not in doc:
            raise _wrong(path, f"the field {field} is missing", f"add {field}: ...")
    return Spec(
        path,
        str(doc["name"]),
        doc.get("catalog"),
        doc.get("database", doc.get("schema")),
        _configuration(path, doc.get("configuration", {})),
        tuple(_pattern(path, entry) for entry in doc.get("libraries") or ()),
    )


def _read(path: Path) -> Any:
    try:
        import yaml
    except ImportError as problem:
        raise Unavailable("PyYAML is not installed", hint='pip install "viewkeep[spark]"') from problem
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise PipelineProblem(
            f"{path} cannot be read: {problem.strerror}", hint="check the path"
        ) from problem
    except yaml.YAMLError as problem:
        raise _wrong(path, f"it is no YAML: {problem}") from problem


def _configuration(path: Path, given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        raise _wrong(path, "configuration is no mapping", "configuration: {spark.sql.ansi.enabled: 'true'}")
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise _wrong(path, f"configuration {key}: {value!r} is no text", "write the value in quotes")
    return dict(given)


def _pattern(path: Path, entry: Any) -> str:
    """A file, or a directory with all that is in it: other patterns are none of a pipeline's."""
    try:
        include = entry["glob"]["include"]
    except (KeyError, TypeError) as problem:
        raise _wrong(path, f"{entry!r} is no library", "- glob: {include: transformations/**}") from problem
    if not isinstance(include, str):
        raise _wrong(path, f"{include!r} is no path", "- glob: {include: transformations/**}")
    if not glob.has_magic(include):
        return include
    if include.endswith("/**") and not glob.has_magic(include.removesuffix("/**")):
        return f"{include}/*"
    raise _wrong(
        path,
        f"the pattern {include} is neither a file nor a directory",
        "write a path, or a directory and /**",
    )


def _wrong(path: Path, message: str, hint: str = "correct the file") -> PipelineProblem:
    return PipelineProblem(f"{path}: {message}", hint=hint)
