"""What calls give back. Each prints as a person would read it and turns into the JSON form of the docs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from viewkeep.cached import cached_property

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Result:
    """The rows of a query, or what a statement did. `kind` is the statement's kind in JSON output."""

    kind: str
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    message: str = ""
    detail: Any = None
    frame: Callable[[], Any] | None = field(default=None, compare=False)

    def df(self) -> Any:
        """The rows as the engine's own frame: a Spark DataFrame, or from DuckDB a pyarrow Table."""
        if self.frame is None:
            raise TypeError(f"a {self.kind} statement has no data frame")
        return self.frame()

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Refresh:
    """One refresh: which strategy ran and why, and what it cost."""

    view: str
    strategy: str
    reason: str
    seconds: float
    changes_in: int = 0
    counted: int | Callable[[], int] = field(default=0, repr=False)
    """How many rows changed, or how to find out: a diff that is stored as it is names rows that nobody has
    looked for yet."""
    diff_rows: int = 0
    statements: int = 0
    jobs: int | None = None
    commits: int | None = None
    rows_read: int | None = None
    lookups: int | None = None
    cache_rows: int | None = None
    cache_inserts: int | None = None
    phases: dict[str, float] = field(default_factory=dict)

    @cached_property
    def rows_changed(self) -> int:
        """How many stored rows the refresh changed. Where it did not have to find them, they are counted when
        this is first asked for."""
        return self.counted() if callable(self.counted) else self.counted


@dataclass(frozen=True)
class Verification:
    """Whether a view equals its query; rows that it lacks and rows that it should not have (some of them)."""

    view: str
    missing: int
    unexpected: int
    columns: tuple[str, ...] = ()
    missing_rows: tuple[Row, ...] = ()
    unexpected_rows: tuple[Row, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.missing and not self.unexpected

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.equal:
            return f"{self.view} equals its query"
        lines = [f"{self.view} differs: {self.missing} rows missing, {self.unexpected} unexpected"]
        lines += [f"  missing:    {row}" for row in self.missing_rows]
        lines += [f"  unexpected: {row}" for row in self.unexpected_rows]
        return "\n".join(lines)


@dataclass(frozen=True)
class Regression:
    """A linear model: the label is about the intercept plus each column times its coefficient."""

    label: str
    intercept: float
    coefficients: Mapping[str, float]
    count: int
    rank: int
    """How many of the columns are linearly independent; where not all are, other models fit as well."""
    r2: float
    rmse: float
    categories: Mapping[str, Mapping[Any, float]] = field(default_factory=dict)
    """For each categorical column what a row gets for its value there."""

    def __getitem__(self, name: str) -> float:
        return self.coefficients[name]

    def predict(self, row: Mapping[str, Any]) -> float:
        """The label that the model gives a row, which must have all columns."""
        numbers = sum(float(row[name]) * c for name, c in self.coefficients.items())
        return self.intercept + numbers + sum(values[row[name]] for name, values in self.categories.items())

    def __str__(self) -> str:
        terms = [f"{self.intercept:.6g}"]
        for name, value in self.coefficients.items():
            terms.append(f"{'-' if value < 0 else '+'} {abs(value):.6g} * {name}")
        for name, values in self.categories.items():
            for of, value in values.items():
                terms.append(f"{'-' if value < 0 else '+'} {abs(value):.6g} * ({name} = {of})")
        lines = [f"{self.label} = {' '.join(terms)}"]
        lines.append(f"  {self.count:,} rows, R2 {self.r2:.4f}, RMSE {self.rmse:.6g}")
        columns = len(self.coefficients) + sum(map(len, self.categories.values()))
        if self.rank < columns:
            lines.append(f"  only {self.rank} of {columns} columns are linearly independent")
        return "\n".join(lines)


@dataclass(frozen=True)
class ViewStatus:
    """A view as it stands: how many rows, which base versions it shows, how many changes wait."""

    view: str
    rows: int
    pending: int
    stale: bool
    strategy: str
    refreshed: datetime | None
    versions: dict[str, int]
    tables: tuple[str, ...]
    caches: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Explanation:
    """What a refresh will do. str() of it is what a person reads."""

    view: str
    plan: str
    caches: Sequence[str]
    diffs: Sequence[str]
    script: Sequence[tuple[str, str]]
    steps: Sequence[tuple[str, str]] = ()
    variable_order: str = ""
    view_tree: str = ""

    def __str__(self) -> str:
        parts = [f"view {self.view}", "", "plan, with the IDs of each operator:", _indent(self.plan)]
        if self.view_tree:
            parts += ["", "variable order:", _indent(self.variable_order)]
            parts += ["", "view tree:", _indent(self.view_tree)]
        parts += ["", "stored:", *(f"  {c}" for c in self.caches)]
        parts += ["", "diffs of the base tables:", *(f"  {d}" for d in self.diffs)]
        parts += ["", "delta script:"]
        for number, (title, sql) in enumerate(self.script, start=1):
            parts += [f"  {number}. {title}", _indent(sql, 5)]
        return "\n".join(parts)

    def steps_text(self) -> str:
        """The plan after every pass."""
        return "\n\n".join(f"after {name}:\n{_indent(shown)}" for name, shown in self.steps)


def _indent(text: str, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())
