"""A run of a pipeline: new views are made, those that changed are replaced, the others are refreshed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

from viewkeep.catalog.models import View
from viewkeep.connection import Connection
from viewkeep.definitions import PIPELINE
from viewkeep.engines.spark.engine import SparkEngine
from viewkeep.engines.spark.errors import first_line
from viewkeep.errors import AlreadyExists, DependentViews, Unsupported, ViewkeepError
from viewkeep.frontend.statements import DIALECT, CreateView, parse_sql
from viewkeep.frontend.views import with_views_in_place
from viewkeep.pipelines.dataframes import named
from viewkeep.pipelines.elements import Element, Elements, Where, load, own_properties
from viewkeep.pipelines.errors import PipelineProblem
from viewkeep.pipelines.queries import Queries, Query, reads_failed
from viewkeep.pipelines.spec import Spec, find_spec, load_spec
from viewkeep.results import Refresh


@dataclass(frozen=True)
class Outcome:
    """What a run did with a view, or what a dry run would do."""

    view: str
    action: str
    """`create`, `replace`, `refresh`, `fail`, or `left` for a view that the project has no more."""
    file: str = ""
    line: int | None = None
    sql: str = ""
    rows: int | None = None
    refresh: Refresh | None = None
    error: ViewkeepError | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """What a run did."""

    pipeline: str
    outcomes: tuple[Outcome, ...]
    dry: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not any(outcome.error for outcome in self.outcomes)

    def __bool__(self) -> bool:
        return self.ok


def run(vk: Connection, spec_path: str | Path | None = None, full: bool = False) -> Run:
    """Brings the materialized views of a Spark Declarative Pipelines project up to date.

    `spec_path`: its spark-pipeline.yml; else the one of this directory, or of the nearest above it. A view
    that fails does not stop others: look at `ok`, and at the outcomes.
    """
    with _opened(vk, spec_path) as project:
        project.read()
        project.plan()
        project.make()
        project.refresh(full)
        return Run(project.spec.name, project.outcomes())


def dry_run(vk: Connection, spec_path: str | Path | None = None) -> Run:
    """What a run would do; checks everything that can be checked without storing anything."""
    with _opened(vk, spec_path) as project:
        project.read()
        project.plan()
        return Run(project.spec.name, project.outcomes(), dry=True)


@contextmanager
def _opened(vk: Connection, spec_path: str | Path | None) -> Iterator[_Project]:
    engine = vk.engine
    if not isinstance(engine, SparkEngine):
        raise Unsupported(
            f"pipelines are Spark's, and this warehouse is on {engine.name}", hint="use --at spark:DIR"
        )
    if not hasattr(engine.session, "newSession"):
        raise Unsupported(
            "pipelines run in classic sessions, and this is one of Spark Connect",
            hint="open it without remote(), or use --at spark:DIR",
        )
    spec = load_spec(Path(spec_path) if spec_path is not None else find_spec(Path.cwd()))
    _check_database(engine.session, spec)
    settings = _settings(engine.session, spec)
    with engine.within(spec.catalog, spec.database, settings):
        yield _Project(vk, spec, _copy(engine.session))


def _check_database(session: Any, spec: Spec) -> None:
    if spec.database is None:
        return
    name = ".".join(part for part in (spec.catalog, spec.database) if part)
    if not session.catalog.databaseExists(name):
        raise PipelineProblem(
            f"{spec.path}: there is no database {name}", hint=f"CREATE DATABASE {name}, or correct the spec"
        )


def _settings(session: Any, spec: Spec) -> dict[str, str]:
    """The settings of a spec that the session does not have; what only a new session can have is refused."""
    wanted = {k: v for k, v in spec.configuration.items() if session.conf.get(k, None) != v}
    trial = session.newSession()
    for key, value in wanted.items():
        try:
            trial.conf.set(key, value)
        except PySparkException as problem:
            raise PipelineProblem(
                f"{spec.path.name}: {key} cannot be set for a run: {first_line(problem)}",
                hint="set it where the session is started; in the spec it may then have the same value",
            ) from problem
    return wanted


def _copy(session: Any) -> Any:
    """A session with the settings and functions of the user's, which may be changed without a trace. The
    user's temporary views are none of the pipeline's, and would hide tables of their names."""
    copy = type(session)(session.sparkContext, session._jsparkSession.cloneSession())
    for row in copy.sql("SHOW TABLES").collect():
        if row.isTemporary:
            copy.catalog.dropTempView(row.tableName)
    copy.catalog.setCurrentCatalog(session.catalog.currentCatalog())
    copy.catalog.setCurrentDatabase(session.catalog.currentDatabase())
    return copy


@dataclass(frozen=True)
class _Planned:
    """A view of the project, with what is to be done."""

    element: Element
    query: Query
    statement: CreateView
    existing: View | None
    action: str


class _Project:
    """One run of one project, step by step."""

    def __init__(self, vk: Connection, spec: Spec, session: Any) -> None:
        self.spec = spec
        self._vk = vk
        self._qualify = cache(vk.engine.qualify)  # what is current stays the same for the run
        self._queries = Queries(spec, session, self._qualify)
        self._elements = Elements()
        self._planned: dict[str, _Planned] = {}
        self._outcomes: dict[str, Outcome] = {}

    # --- reading ---

    def read(self) -> None:
        """Finds what the project defines, and each view's query; a view comes after those that it reads."""
        self._elements = load(self.spec, self._queries.session, self._qualify)
        for refused in self._elements.refused:
            self._outcomes[refused.name.lower()] = _failed(refused.name, refused.where, refused.error)
        self._queries.know(self._elements.views)
        for element in self._elements.views:
            self._vk.progress(f"reading {element.name}")
            self._attempt(element, partial(self._visit, element))

    def _visit(self, element: Element) -> None:
        query = self._queries.read(element)
        for other in query.reads:
            self._visit(other)
        key = self._key(element)
        if element.temporary or key in self._planned:
            return
        existing = self._stored(element)
        statement = self._statement(element, query)
        self._planned[key] = _Planned(element, query, statement, existing, "refresh")

    def _statement(self, element: Element, query: Query) -> CreateView:
        options = own_properties(element.properties)[0] | {PIPELINE: self.spec.name}
        text, start, line = query.text, 0, 1
        if element.statement is not None and query.verbatim:
            text, start = element.statement.text, element.query_start
            line = element.statement.first_line
        return CreateView(text, line, element.name, query.text, start, options)

    def _key(self, element: Element) -> str:
        return self._qualify(element.name).lower()

    def _stored(self, element: Element) -> View | None:
        key = self._key(element)
        return next((view for view in self._vk.engine.views() if view.name.lower() == key), None)

    # --- planning ---

    def plan(self) -> None:
        """Decides what is to be done with each view, and checks what is to be made; touches nothing."""
        for key, planned in list(self._planned.items()):
            self._attempt(planned.element, partial(self._decide, key, planned))
        self._refuse_what_others_read()

    def _decide(self, key: str, planned: _Planned) -> None:
        element, existing = planned.element, planned.existing
        for other in planned.query.reads:
            if self._key(other) in self._outcomes:
                raise reads_failed(element, other)
        action = self._action(planned)
        if action != "refresh":
            inlined = with_views_in_place(planned.query.tree, self._definition)
            whole = planned.query.reads or not planned.query.verbatim
            check = replace(planned.statement, query=inlined.sql(DIALECT), query_start=0) if whole else None
            self._vk.check(check or planned.statement)
            if existing is not None and existing.options.get(PIPELINE) != self.spec.name:
                raise AlreadyExists(
                    f"{existing.name} exists already, and pipeline {self.spec.name} did not make it",
                    hint=f"DROP MATERIALIZED VIEW {existing.name} first, or give one of them another name",
                )
        self._planned[key] = replace(planned, action=action)

    def _action(self, planned: _Planned) -> str:
        existing = planned.existing
        if existing is None:
            return "create"
        readsnew = any(self._planned[self._key(other)].action != "refresh" for other in planned.query.reads)
        options = {k: v for k, v in planned.statement.options.items() if k != PIPELINE}
        before = {k: v for k, v in existing.options.items() if k != PIPELINE}
        same = _normal(existing.sql) == _normal(planned.query.text) and options == before
        return "refresh" if same and not readsnew else "replace"

    def _definition(self, name: str) -> Any:
        """The query of a materialized view of the project over base tables, as the run will make it."""
        found = self._queries.find(name)
        if found is None:
            return None
        return with_views_in_place(self._queries.read(found).tree, self._definition)

    def _refuse_what_others_read(self) -> None:
        """A view that is replaced takes along the views of the project that read it, and no others."""
        again = True
        while again:
            again = False
            replaced = {p.existing.name for p in self._replaced() if p.existing is not None}
            for key, planned in list(self._planned.items()):
                lost = [other for other in planned.query.reads if self._key(other) in self._outcomes]
                if planned.action == "refresh" or key in self._outcomes:
                    continue
                if lost:
                    self._fail(planned.element, reads_failed(planned.element, lost[0]))
                    again = True
                elif planned.existing is not None and (readers := self._readers(planned.existing) - replaced):
                    self._fail(planned.element, _is_read(planned.existing, readers))
                    again = True

    def _replaced(self) -> list[_Planned]:
        return [p for key, p in self._planned.items() if p.action == "replace" and key not in self._outcomes]

    def _readers(self, view: View) -> set[str]:
        return {v.name for v in self._vk.engine.views() if view.name.lower() in {n.lower() for n in v.views}}

    # --- doing ---

    def make(self) -> None:
        """Makes new views and replaces those that changed. Views that read a replaced one are made anew: what
        is stored of them belongs to its old definition."""
        dropped = self._drop_readers()
        for key, planned in self._planned.items():
            if planned.action != "refresh" and key not in self._outcomes:
                replacing = planned.action == "replace" and key not in dropped
                self._attempt(planned.element, partial(self._create, key, replacing))

    def _drop_readers(self) -> set[str]:
        """Drops the stored views that read one that is to be replaced, the readers of readers first."""
        replaced = {planned.existing.name: planned for planned in self._replaced() if planned.existing}
        stored = {name: planned.existing for name, planned in replaced.items() if planned.existing}
        waiting = [name for name, view in stored.items() if set(view.views) & set(stored)]
        dropped: set[str] = set()
        while waiting:
            # what is stored has no circles: there is one that none of the others reads
            name = next(n for n in waiting if not any(n in stored[other].views for other in waiting))
            waiting.remove(name)
            element = replaced[name].element
            self._attempt(element, partial(self._vk.drop, name))
            dropped.add(self._key(element))
        return dropped

    def _create(self, key: str, replacing: bool) -> None:
        planned = self._planned[key]
        for other in planned.query.reads:
            if (outcome := self._outcomes.get(self._key(other))) is not None and outcome.error is not None:
                raise reads_failed(planned.element, other)
        made = self._vk.run(replace(planned.statement, replace=replacing))
        self._outcomes[key] = replace(self._outcome(planned), rows=made.detail)

    def refresh(self, full: bool) -> None:
        """Refreshes the views that were there before, in one call: so they show one version of the tables."""
        waiting = {
            planned.existing.name: planned
            for key, planned in self._planned.items()
            if planned.action == "refresh" and key not in self._outcomes and planned.existing is not None
        }
        if not waiting:
            return
        done: Sequence[Refresh]
        failures: Mapping[str, Exception] = {}
        try:
            done = self._vk.refresh(*waiting, full=full)
        except ViewkeepError as problem:
            done = problem.refreshed
            failures = problem.failures or dict.fromkeys(waiting, problem)
        for refresh in done:
            if refresh.view in waiting:
                outcome = replace(self._outcome(waiting[refresh.view]), refresh=refresh)
                self._outcomes[refresh.view.lower()] = outcome
        for name, failure in failures.items():
            if not isinstance(failure, ViewkeepError):
                raise failure
            if name in waiting:
                self._fail(waiting[name].element, failure)
            else:
                self._outcomes[name.lower()] = _failed(name, None, failure)

    # --- telling ---

    def outcomes(self) -> tuple[Outcome, ...]:
        """What became, or would become, of each view, in the order in which they are made."""
        kept = [self._outcomes.get(key) or self._outcome(planned) for key, planned in self._planned.items()]
        others = [outcome for key, outcome in self._outcomes.items() if key not in self._planned]
        return (*kept, *others, *self._left())

    def _outcome(self, planned: _Planned) -> Outcome:
        element = planned.element
        name = planned.existing.name if planned.existing else self._qualify(element.name)
        notes = tuple(f"{said} is not used: viewkeep decides how it stores a view" for said in element.unused)
        where = element.where
        return Outcome(name, planned.action, where.file, where.line, planned.query.text, notes=notes)

    def _left(self) -> Iterator[Outcome]:
        """Views of earlier runs that the project has no more. Nobody knows where a file could not be read."""
        if not self._elements.complete:
            return
        known = {self._key(element) for element in self._elements.views}
        known |= {self._qualify(refused.name).lower() for refused in self._elements.refused}
        for view in self._vk.engine.views():
            if view.options.get(PIPELINE) == self.spec.name and view.name.lower() not in known:
                drop = f"DROP MATERIALIZED VIEW {named(view.name).sql(DIALECT)}"
                note = f"it is no longer in the project, and was left as it is; {drop} removes it"
                yield Outcome(view.name, "left", sql=drop, notes=(note,))

    def _attempt(self, element: Element, call: Callable[[], None]) -> None:
        try:
            call()
        except ViewkeepError as problem:
            self._fail(element, problem)

    def _fail(self, element: Element, problem: ViewkeepError) -> None:
        outcome = _failed(element.name, element.where, problem)
        if not element.temporary:
            outcome = replace(outcome, view=self._qualify(element.name))
        if problem.place is not None and element.statement is not None:
            line = element.statement.first_line + problem.place.line - 1
            outcome = replace(outcome, line=line)
        self._outcomes[self._key(element)] = outcome


def _failed(name: str, where: Where | None, problem: ViewkeepError) -> Outcome:
    line = problem.line if isinstance(problem, PipelineProblem) and problem.line else None
    if where is None:
        return Outcome(name, "fail", error=problem)
    return Outcome(name, "fail", where.file, line or where.line, error=problem)


def _is_read(view: View, readers: set[str]) -> ViewkeepError:
    names = ", ".join(sorted(readers))
    return DependentViews(
        f"{view.name} cannot be replaced: {names} reads it, and is not replaced with it",
        hint=f"DROP MATERIALIZED VIEW {sorted(readers)[0]} first",
    )


def _normal(sql: str) -> str:
    """A query's text without what does not matter in it: comments, spaces, the case of keywords."""
    return parse_sql(sql).sql(DIALECT, comments=False)
