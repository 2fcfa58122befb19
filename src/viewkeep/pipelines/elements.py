"""What the files of a project define: materialized views and temporary views, and what is none of both.

Python files register their functions with a registry of ours, SQL files are read statement by statement.
Nothing is run here but the modules themselves; what a function returns is asked for later.
"""

from __future__ import annotations

import importlib.util
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, Sink, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation

from viewkeep.errors import Unsupported, ViewkeepError
from viewkeep.frontend.statements import Statement
from viewkeep.pipelines.errors import PipelineProblem
from viewkeep.pipelines.spec import Spec
from viewkeep.pipelines.surroundings import code_of_the_project

STREAMING_HINT = (
    "keep the streaming query outside of the project, write it to a Delta table with vk.stream_into(), and "
    "define materialized views over that table"
)


@dataclass(frozen=True)
class Where:
    """A place in a file of the project, its path as the project names it."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Element:
    """A view that the project defines: by a function that returns a DataFrame, or by SQL."""

    name: str
    where: Where
    temporary: bool
    function: Callable[[], Any] | None = None
    statement: Statement | None = None
    query: str = ""
    """The text of the query, `query_start` characters into the text of the statement."""
    query_start: int = 0
    schema: Any = None
    properties: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    """What is said of how the view is stored, which viewkeep decides itself."""


@dataclass(frozen=True)
class Refused:
    """Something that the project defines and that is not kept, with the reason."""

    name: str
    where: Where | None
    error: ViewkeepError


@dataclass
class Elements:
    """All that a project defines."""

    views: list[Element] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    complete: bool = True
    """False where a file could not be read, so that there may be views nobody knows of."""


def load(spec: Spec, session: Any, qualify: Callable[[str], str]) -> Elements:
    """Imports the Python files and reads the SQL files of a project; one that fails stops no other."""
    from viewkeep.pipelines.sql_files import read_sql

    found = Elements()
    registry = Registry(spec, found)
    with in_directory(spec.root), graph_element_registration_context(registry):
        for file in spec.files():
            shown = str(file.relative_to(spec.root))
            if file.suffix == ".py":
                _import(file, shown, session, found)
            elif file.suffix == ".sql":
                read_sql(file, shown, found)
            else:
                found.complete = False
                error = PipelineProblem(
                    f"{shown} is neither Python nor SQL", hint="leave it out of libraries"
                )
                found.refused.append(Refused(shown, Where(shown, 1), error))
    _refuse_same_names(found, qualify)
    return found


def _import(file: Path, shown: str, session: Any, found: Elements) -> None:
    loading = importlib.util.spec_from_file_location(file.stem, str(file))
    assert loading is not None
    assert loading.loader is not None
    module = importlib.util.module_from_spec(loading)
    module.__dict__["spark"] = session
    try:
        with code_of_the_project(session):
            loading.loader.exec_module(module)
    except (Exception, SystemExit) as problem:  # whatever a file of the user's raises is told, with its line
        found.complete = False
        error = PipelineProblem(
            f"{shown} cannot be imported: {told(problem)}", hint="correct the file; its views were left alone"
        )
        error.__cause__ = problem
        found.refused.append(Refused(shown, Where(shown, line_in(file, problem)), error))


def told(problem: BaseException) -> str:
    """An exception of the user's code in a line."""
    text = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {text[0][:300]}" if text else type(problem).__name__


def line_in(file: Path | str, problem: BaseException) -> int:
    """The last line of a file that a traceback goes through."""
    if isinstance(problem, SyntaxError) and problem.filename == str(file):
        return problem.lineno or 1
    lines = [f.lineno for f in traceback.extract_tb(problem.__traceback__) if f.filename == str(file)]
    return lines[-1] or 1 if lines else 1


@contextmanager
def in_directory(path: Path) -> Iterator[None]:
    """The project's code finds its files by paths from the project's directory."""
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


class Registry(GraphElementRegistry):
    """Takes down what the decorators of pyspark.pipelines register."""

    def __init__(self, spec: Spec, found: Elements) -> None:
        self._spec = spec
        self._found = found
        self._outputs: dict[str, Output] = {}

    def register_output(self, output: Output) -> None:
        self._outputs[output.name] = output
        if not isinstance(output, MaterializedView | TemporaryView):
            what = "a sink" if isinstance(output, Sink) else "a streaming table"
            self._refuse(output.name, output.source_code_location, f"{output.name} is {what}")

    def register_flow(self, flow: Flow) -> None:
        output = self._outputs.get(flow.target)
        where = self._where(flow.source_code_location)
        if isinstance(output, MaterializedView | TemporaryView) and flow.name == flow.target:
            if flow.spark_conf:
                error = Unsupported(
                    f"{flow.name} has settings of its own: {', '.join(flow.spark_conf)}",
                    hint="put them under configuration in the pipeline's spec: all its views then have them",
                )
                self._found.refused.append(Refused(flow.name, where, error))
                return
            stored = output if isinstance(output, MaterializedView) else None
            self._found.views.append(
                Element(
                    flow.name,
                    where,
                    stored is None,
                    function=flow.func,
                    schema=stored.schema if stored else None,
                    properties=dict(stored.table_properties) if stored else {},
                    unused=_unused(stored) if stored else (),
                )
            )
        elif output is None or isinstance(output, MaterializedView | TemporaryView):
            self._refuse(flow.name, flow.source_code_location, f"{flow.name} is a flow into {flow.target}")

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        name = flow.name or flow.target
        self._refuse(name, flow.source_code_location, f"{name} is a CDC flow into {flow.target}")

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise AssertionError("SQL files are read by sql_files.py")

    def _refuse(self, name: str, location: SourceCodeLocation, message: str) -> None:
        error = Unsupported(f"{message}, and viewkeep keeps materialized views", hint=STREAMING_HINT)
        self._found.refused.append(Refused(name, self._where(location), error))

    def _where(self, location: SourceCodeLocation) -> Where:
        path = Path(location.filename)
        if path.is_relative_to(self._spec.root):
            path = path.relative_to(self._spec.root)
        return Where(str(path), location.line_number or 1)


def _unused(view: MaterializedView) -> tuple[str, ...]:
    said = {
        "comment": view.comment,
        "partition_cols": view.partition_cols,
        "cluster_by": view.cluster_by,
        "format": view.format if (view.format or "delta").lower() != "delta" else None,
        "table_properties": own_properties(view.table_properties)[1],
    }
    return tuple(name for name, value in said.items() if value)


def own_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Properties that are options of viewkeep's, `viewkeep.refresh_policy` and the like, and the others."""
    own = {k.removeprefix("viewkeep."): v for k, v in properties.items() if k.startswith("viewkeep.")}
    return own, {k: v for k, v in properties.items() if not k.startswith("viewkeep.")}


def _refuse_same_names(found: Elements, qualify: Callable[[str], str]) -> None:
    """Two views of one name: nobody can say which is meant, so neither is kept."""
    by_name: dict[str, list[Element]] = {}
    for element in found.views:
        by_name.setdefault(qualify(element.name).lower(), []).append(element)
    for same in by_name.values():
        if len(same) > 1:
            places = " and at ".join(str(element.where) for element in same)
            error = PipelineProblem(
                f"{same[0].name} is defined more than once: at {places}", hint="give each a name of its own"
            )
            found.views = [element for element in found.views if element not in same]
            found.refused.append(Refused(same[0].name, same[0].where, error))
