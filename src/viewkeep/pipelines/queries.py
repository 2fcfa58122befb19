"""From what a project defines to SQL: each view's query, and what it reads.

Functions run in a copy of the user's session, so nothing of the user's is touched. There each view that has
been read stands as a temporary view over its DataFrame: views over views can be analyzed before anything is
stored, and against the definitions as they are now, not as an earlier run stored them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from sqlglot import exp

from viewkeep.engines.spark.errors import translated
from viewkeep.errors import Unsupported, ViewkeepError
from viewkeep.frontend.statements import DIALECT, parse_sql
from viewkeep.frontend.views import tables_in, with_views_in_place
from viewkeep.pipelines.dataframes import INSTEAD, query_of, same_query
from viewkeep.pipelines.elements import STREAMING_HINT, Element, in_directory, line_in, told
from viewkeep.pipelines.errors import PipelineProblem
from viewkeep.pipelines.spec import Spec
from viewkeep.pipelines.surroundings import code_of_the_project


@dataclass(frozen=True)
class Query:
    """The query of a view: as a tree, with the temporary views of the project in their places."""

    tree: exp.Expr
    verbatim: str
    """The user's own text of it; empty where it was made from a DataFrame or has temporary views in it."""
    reads: tuple[Element, ...]
    """The materialized views of the project that it names."""

    @property
    def text(self) -> str:
        return self.verbatim or self.tree.sql(DIALECT)


class ReadFirst(BaseException):
    """Goes through the user's function, which is called again once the other view has been read; past any
    `except Exception` of the user's."""

    def __init__(self, element: Element) -> None:
        self.element = element


class Queries:
    """Reads the queries of a project's views, each once, those first that others read."""

    def __init__(self, spec: Spec, session: Any, qualify: Callable[[str], str]) -> None:
        self._spec = spec
        self._session = session
        self._qualify = qualify
        self._elements: dict[str, Element] = {}
        self._done: dict[str, Query] = {}
        self._failed: dict[str, ViewkeepError] = {}
        self._reading: list[Element] = []
        self._stubs: dict[str, Element] = {}
        self.session = PipelineSession(session, self)

    def know(self, elements: Sequence[Element]) -> None:
        """The project's views, once its files have been loaded."""
        self._elements = {self._key(element): element for element in elements}

    def _key(self, element: Element) -> str:
        # temporary views are in no database
        return (element.name if element.temporary else self._qualify(element.name)).lower()

    def find(self, name: str) -> Element | None:
        """The view of the project that a name means."""
        found = self._elements.get(name.lower())
        if found is not None and found.temporary:
            return found
        found = self._elements.get(self._qualify(name).lower())
        return None if found is None or found.temporary else found

    def read(self, element: Element) -> Query:
        """The query of a view, or the reason why there is none."""
        key = self._key(element)
        if key in self._failed:
            raise self._failed[key]
        if key not in self._done:
            if element in self._reading:
                names = " reads ".join(
                    e.name for e in [*self._reading[self._reading.index(element) :], element]
                )
                raise Unsupported(f"a view cannot read itself: {names}", hint="break the circle")
            self._reading.append(element)
            try:
                self._done[key] = self._read(element)
            except ViewkeepError as problem:
                self._failed[key] = problem
                raise
            finally:
                self._reading.pop()
        return self._done[key]

    def _read(self, element: Element) -> Query:
        if element.function is None:
            tree = parse_sql(element.query, start=element.query_start, whole=_text(element))
            if not isinstance(tree, exp.Query):
                raise Unsupported(f"the definition of {element.name} is no query", hint="write AS SELECT ...")
            self._read_what_it_reads(element, tree)
            return self._checked(element, self._analyzed(tree, element.query), tree, element.query)
        frame, text = self._called(element, element.function)
        if text is not None:
            return self._checked(element, frame, parse_sql(text), text)
        _refuse_stream(frame)
        stored = {stub: other.name for stub, other in self._stubs.items()}
        return self._checked(element, frame, query_of(frame, stored), "")

    def _checked(self, element: Element, frame: Any, tree: exp.Expr, text: str) -> Query:
        """The query with temporary views in their places, if it still is the one that Spark understands."""
        _refuse_stream(frame)
        _check_schema(element, frame)
        for table in tables_in(tree):
            if (other := self.find(_name(table))) is not None and self._key(other) not in self._done:
                # the function came by it another way, as an earlier run has stored it
                raise Unsupported(
                    f"it reads {other.name} past the pipeline's session", hint="read it with spark.table()"
                )
        inlined = with_views_in_place(tree, self._temporary)
        changed = any(self._temporary(_name(table)) is not None for table in tables_in(tree))
        verbatim = "" if changed else text
        if not verbatim and not same_query(frame, self._analyzed(inlined)):
            raise Unsupported(
                f"the SQL that was made of {element.name} is not certain to mean the same: "
                f"{inlined.sql(DIALECT)}",
                hint=INSTEAD if element.function else "write the temporary views that it reads as CTEs",
            )
        self._stub(element, frame)
        found = (self.find(_name(table)) for table in tables_in(inlined))
        reads = {self._key(other): other for other in found if other is not None}
        return Query(inlined, verbatim, tuple(reads.values()))

    def _temporary(self, name: str) -> exp.Expr | None:
        found = self.find(name)
        return self._done[self._key(found)].tree if found is not None and found.temporary else None

    def _read_what_it_reads(self, element: Element, tree: exp.Expr) -> None:
        for table in tables_in(tree):
            other = self.find(_name(table))
            if other is not None:
                self._read_other(element, other)

    def _read_other(self, element: Element, other: Element) -> None:
        try:
            self.read(other)
        except ViewkeepError as problem:
            if other in self._reading:
                raise
            raise reads_failed(element, other) from problem

    # --- functions ---

    def _called(self, element: Element, function: Callable[[], Any]) -> tuple[Any, str | None]:
        """What a function of the user's returns, and the SQL text that it is of, if it is just that."""
        while True:
            self.session.texts.clear()
            read = set(self._done)
            try:
                with in_directory(self._spec.root), code_of_the_project(self.session):
                    frame = function()
            except ReadFirst as first:
                self._read_other(element, first.element)
                continue
            except ViewkeepError:
                raise
            except Exception as problem:
                other = self._missing(problem)
                if other is not None and self._key(other) not in read:
                    self._read_other(element, other)
                    continue
                raise _raised(element, problem) from problem
            if not hasattr(frame, "createOrReplaceTempView"):
                raise Unsupported(
                    f"function {element.name} returns {type(frame).__name__}, no DataFrame",
                    hint="return a DataFrame",
                )
            return frame, next((text for made, text in self.session.texts if made is frame), None)

    def _missing(self, problem: Exception) -> Element | None:
        """The view of the project that Spark does not find, which is not stored yet."""
        if not isinstance(problem, PySparkException) or "TABLE_OR_VIEW_NOT_FOUND" not in str(problem):
            return None
        name = (problem.getMessageParameters() or {}).get("relationName", "")
        return self.find(name.replace("`", ""))

    def before_reading(self, name: str) -> str:
        """What a table that a function asks for is called in the copy of the session."""
        other = self.find(name) if self._reading else None
        if other is None:
            return name
        if self._key(other) not in self._done:
            raise ReadFirst(other)
        return self._stub_name(other)

    def asked(self, text: str) -> Any:
        """The DataFrame of a query that a function asks for."""
        tree = parse_sql(text)
        if not isinstance(tree, exp.Query):
            raise Unsupported(
                "the code of a pipeline runs queries, and no other SQL", hint='spark.sql("SELECT ...")'
            )
        for table in tables_in(tree):
            self.before_reading(_name(table))
        return self._spark(self._in_session(tree, text))

    # --- the copy of the session ---

    def _stub_name(self, element: Element) -> str:
        last = element.name.split(".")[-1]
        return last if self.find(last) is element else element.name.replace(".", "_viewkeep_")

    def _stub(self, element: Element, frame: Any) -> None:
        name = self._stub_name(element)
        frame.createOrReplaceTempView(_quoted(name))
        self._stubs[name.lower()] = element

    def _analyzed(self, tree: exp.Expr, text: str = "") -> Any:
        try:
            return self._spark(self._in_session(tree, text or tree.sql(DIALECT)))
        except PySparkException as problem:
            raise translated(problem) from problem

    def _spark(self, text: str) -> Any:
        return self._session.sql(text)

    def _in_session(self, tree: exp.Expr, text: str) -> str:
        """The text as the copy of the session knows its tables: the views have no database there."""
        made = tree.copy()
        renamed = False
        for table in list(tables_in(made)):
            element = self.find(_name(table)) if self._reading else None
            if element is None or _name(table).lower() == self._stub_name(element).lower():
                continue
            stub = exp.table_(self._stub_name(element), quoted=True)
            stub.set("alias", table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name)))
            for key in ("joins", "laterals"):
                stub.set(key, table.args.get(key))
            table.replace(stub)
            renamed = True
        return made.sql(DIALECT) if renamed else text


class PipelineSession:
    """What the project's code knows as `spark`: the copy of the session, with its queries taken down."""

    def __init__(self, session: Any, queries: Queries) -> None:
        self._session = session
        self._queries = queries
        self.texts: list[tuple[Any, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def sql(self, text: str, *arguments: Any, **named: Any) -> Any:
        if arguments or named:  # their values are in the plan, and only there
            return self._session.sql(text, *arguments, **named)
        frame = self._queries.asked(text)
        self.texts.append((frame, text))
        return frame

    def table(self, name: str) -> Any:
        return self._session.table(self._queries.before_reading(name))

    @property
    def read(self) -> Any:
        return PipelineReader(self._session.read, self._queries)

    @property
    def readStream(self) -> Any:  # as Spark names it
        raise Unsupported("it reads a stream, and viewkeep keeps materialized views", hint=STREAMING_HINT)


class PipelineReader:
    """`spark.read` of a PipelineSession."""

    def __init__(self, reader: Any, queries: Queries) -> None:
        self._reader = reader
        self._queries = queries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def table(self, name: str) -> Any:
        return self._reader.table(self._queries.before_reading(name))


def reads_failed(element: Element, other: Element) -> ViewkeepError:
    """The error of a view that could be kept if another could."""
    return PipelineProblem(
        f"{element.name} reads {other.name}, which failed", hint=f"correct {other.name} at {other.where}"
    )


def _raised(element: Element, problem: Exception) -> ViewkeepError:
    code = getattr(element.function, "__code__", None)
    line = line_in(code.co_filename, problem) if code is not None else element.where.line
    hint = "correct the function, or the tables it reads"
    return PipelineProblem(f"function {element.name} raised {told(problem)}", hint=hint, line=line)


def _refuse_stream(frame: Any) -> None:
    if frame.isStreaming:
        raise Unsupported("it reads a stream, and viewkeep keeps materialized views", hint=STREAMING_HINT)


def _check_schema(element: Element, frame: Any) -> None:
    """A declared schema must be what the query gives: viewkeep casts nothing."""
    if element.schema is None:
        return
    from pyspark.sql.types import StructType

    declared: Any = StructType.fromDDL(element.schema) if isinstance(element.schema, str) else element.schema
    columns = [[(f.name, f.dataType) for f in s.fields] for s in (declared, frame.schema)]
    if columns[0] != columns[1]:
        raise Unsupported(
            f"{element.name} declares {declared.simpleString()}, and its query gives "
            f"{frame.schema.simpleString()}",
            hint="cast and name the columns in the query",
        )


def _text(element: Element) -> str:
    return element.statement.text if element.statement is not None else element.query


def _name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(DIALECT)
