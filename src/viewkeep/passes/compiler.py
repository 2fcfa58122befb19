"""View definition -> delta script: the passes, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from viewkeep.algebra.cofactors import Cofactor
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.nodes import Limit, Node, Project, Scan, Window, passing, walk
from viewkeep.algebra.script_nodes import Stored
from viewkeep.catalog.models import Table, same_table
from viewkeep.errors import UnknownTable
from viewkeep.fivm.tree import ViewTree
from viewkeep.frontend.binder import Bound
from viewkeep.frontend.normalize import normalize
from viewkeep.idiff.diff import Diff
from viewkeep.idiff.log import Layout, layout
from viewkeep.idiff.schemas import update_sets
from viewkeep.passes.compose import compose
from viewkeep.passes.infer_ids import infer_ids
from viewkeep.passes.instantiate import Instantiation
from viewkeep.passes.minimize import minimize
from viewkeep.passes.place_caches import Placement, place_caches
from viewkeep.passes.view_tree import Factored, view_tree
from viewkeep.script.model import Script

# Each pass and why it stands where it does. Definition passes run once, at CREATE; batch passes run once
# for each combination of kinds of change that a refresh meets, and the result is kept.
PASSES: tuple[tuple[str, str], ...] = (
    ("normalize", "first: later passes ask which columns a condition looks at, and where it sits"),
    (
        "view_tree",
        "after normalize, which puts conditions of one table below the joins",
    ),
    ("infer_ids", "before any rule: a rule speaks of rows by their IDs"),
    ("place_caches", "before the rules: they read a stored subview rather than compute it again"),
    ("instantiate", "bottom up over the annotated plan"),
    ("compose", "after all rules fired: only then is it known what is read how often"),
    ("minimize", "last: it removes what composition put next to each other"),
)

# rules that compute anew what a change touches
RECOMPUTING = frozenset({"RecomputeTouchedPartitions", "CompareFirstRows"})

Present = Mapping[str, frozenset[str]]


@dataclass
class Compiled:
    """A view, compiled: its plan with IDs, what it stores, its diff schemas, and scripts on demand."""

    names: tuple[str, ...]
    plan: Project
    placement: Placement
    strategy: str
    update_sets: Mapping[Scan, tuple[frozenset[str], ...]]
    steps: tuple[tuple[str, Node], ...]
    locates: bool = False
    tells_null_from_false: bool = False
    query: Expr | None = None
    """The view's query as it was bound: views that it names are replaced by their own queries."""
    by_plan_only: bool = False
    cofactors: tuple[Cofactor, ...] = ()
    group_columns: tuple[str, ...] = ()
    tree: ViewTree | None = None
    """The view tree that the plan follows, if it does."""
    no_tree: str = ""
    """Why it has none, where one was wanted."""
    updatable: tuple[str, ...] | None = None
    """The tables that are declared to change: scripts are for their changes alone. None: all."""
    lean: Compiled | None = None
    """The same view by tuple-based diffs, where these need nothing stored but the view's own rows while
    ID-based ones need caches."""
    _lookups: dict[str, tuple[str, ...]] | None = None
    _layouts: dict[str, Layout] | None = None
    _scripts: dict[frozenset[tuple[str, frozenset[str]]], tuple[Script, tuple[tuple[Node, Diff], ...]]] = (
        field(default_factory=dict)
    )

    @property
    def scans(self) -> list[Scan]:
        return [n for n in walk(self.plan) if isinstance(n, Scan)]

    @property
    def tables(self) -> tuple[str, ...]:
        """The base tables, each once."""
        return tuple(dict.fromkeys(scan.table for scan in self.scans))

    @property
    def caches(self) -> tuple[str, ...]:
        """The targets beside the view's own rows."""
        return tuple(target.name for target in self.placement.targets if target.role != "view")

    @property
    def visible(self) -> tuple[tuple[str, str], ...]:
        """The user's column names with the plan columns they show; hidden IDs follow them in the plan."""
        return tuple(zip(self.names, self.plan.names, strict=False))

    def everything(self) -> Present:
        """A batch with every kind of change in it that scripts are for: what EXPLAIN shows."""
        kinds: dict[str, set[str]] = {}
        for scan in self.scans:
            if self.updatable is not None and scan.table not in self.updatable:
                continue
            own = kinds.setdefault(scan.table, {"insert", "delete"})
            own |= {f"update:{b}" for c, b in scan.fields if c.name not in scan.key}
        return {table: frozenset(k) for table, k in kinds.items()}

    def lookups(self) -> dict[str, tuple[str, ...]]:
        """For each target the single columns by which scripts find its rows: what an index is worth on.

        Not one of several columns that only together name a row: alone each may name half the rows. Those
        that updates look for come first: values change more often than rows go.
        """
        if self._lookups is not None:
            return self._lookups
        _, fired = self.instantiated(self.everything())
        found: dict[str, tuple[str, ...]] = {}
        for target in self.placement.targets:
            own = [diff for node, diff in fired if node is target.node and len(diff.ids) == 1]
            ids = [diff.ids[0] for kind in ("update", "delete") for diff in own if diff.kind == kind]
            found[target.name] = tuple(dict.fromkeys(ids))
        self._lookups = found
        return found

    def lookup_keys(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """For each target the columns by which scripts find its rows: single ones, and those that only
        together name a row. Where a single one finds few rows already, others beside it are worth none."""
        _, fired = self.instantiated(self.everything())
        found: dict[str, tuple[tuple[str, ...], ...]] = {}
        for target in self.placement.targets:
            single = self.lookups()[target.name]
            keys = [
                diff.ids
                for node, diff in fired
                if node is target.node and diff.kind != "insert" and not set(diff.ids) & set(single)
            ]
            found[target.name] = (*((column,) for column in single), *dict.fromkeys(filter(None, keys)))
        return found

    def read_targets(self) -> frozenset[str]:
        """The targets that scripts read, and not only change."""
        script = self.script(self.everything())
        queries = [let.query for let in script.lets]
        queries += [diff.query for a in script.applies if a.changes is None for diff in a.diffs]
        return frozenset(n.target for query in queries for n in walk(query) if isinstance(n, Stored))

    def layouts(self) -> dict[str, Layout]:
        """For each target what is stored of it where diffs are stored too."""
        if self._layouts is None:
            diffs: dict[str, list[Diff]] = {target.name: [] for target in self.placement.targets}
            for apply in self.script(self.everything()).applies:
                if apply.changes is None:
                    diffs[apply.target.name] += apply.diffs
            self._layouts = {t.name: layout(t.node, diffs[t.name]) for t in self.placement.targets}
        return self._layouts

    def to_verify(self) -> Node:
        """The plan that a recomputation runs: as bound, or with IDs where these decide among equal rows."""
        if not self.ids_decide:
            return self.steps[0][1]
        return passing(self.plan, self.plan.names[: len(self.names)])

    @property
    def ids_decide(self) -> bool:
        """Whether SQL leaves open which of some equal rows come first, and IDs decide."""
        return any(isinstance(n, Limit) or (isinstance(n, Window) and n.ties) for n in walk(self.plan))

    @property
    def verified_by_plan(self) -> bool:
        """Whether a recomputation must run the plan, not the user's text, which may leave its answer open."""
        return self.ids_decide or self.by_plan_only

    def not_updatable(self, present: Present) -> str:
        """Why there is no script for a batch: a table has changed that was declared not to. Else empty."""
        for table, kinds in present.items():
            if kinds and self.updatable is not None and table not in self.updatable:
                declared = ", ".join(self.updatable)
                return f"{table} has changed, which is not among the tables declared updatable: {declared}"
        return ""

    def script(self, present: Present) -> Script:
        """The delta script for a batch of these kinds of change."""
        return self.instantiated(present)[0]

    def instantiated(self, present: Present) -> tuple[Script, tuple[tuple[Node, Diff], ...]]:
        """The script, and the rules that fired for it."""
        key = frozenset((t, k) for t, k in present.items() if k)
        if key not in self._scripts:
            rules = Instantiation(self.placement, self.strategy, self.update_sets, present, self.locates)
            script = minimize(compose(rules.run(), self.strategy))
            recomputes = any(diff.rule in RECOMPUTING for _, diff in rules.fired)
            script = replace(script, recomputes=recomputes)
            self._scripts[key] = script, tuple(rules.fired)
        return self._scripts[key]


def compile_view(
    bound: Bound,
    tables: Mapping[str, Table],
    strategy: str,
    locates: bool = False,
    query: Expr | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Compiled:
    """Runs the definition passes. `locates`: whether the engine can tell where a stored row is. `options`:
    those of the view, which say whether it follows a view tree."""
    steps: list[tuple[str, Node]] = [("bind", bound.plan)]
    factored: list[Factored] = []
    updatable = _updatable(options, tables)

    def factor(plan: Project) -> Project:
        factored.append(view_tree(plan, options.get("variable_order"), updatable))
        return factored[0].plan

    passes: tuple[tuple[str, Callable[[Project], Node]], ...] = (
        ("normalize", normalize),
        *((("view_tree", factor),) if _wants_tree(bound, options) else ()),
        ("infer_ids", infer_ids),
    )
    plan = bound.plan
    for name, run in passes:
        made = run(plan)
        assert isinstance(made, Project), f"pass {name} lost the projection on top"
        plan = made
        steps.append((name, plan))
    placement = place_caches(plan, tables, strategy, updatable)
    compiled = Compiled(
        bound.names,
        plan,
        placement,
        strategy,
        update_sets(plan),
        tuple(steps),
        locates,
        bound.tells_null_from_false,
        query,
        bound.by_plan_only,
        bound.cofactors,
        bound.keys,
        factored[0].tree if factored else None,
        factored[0].reason if factored else "",
        updatable,
    )
    if strategy == "id" and updatable is None and len(placement.targets) > 1:
        alone = place_caches(plan, tables, "tuple")
        if len(alone.targets) == 1:
            compiled.lean = replace(compiled, placement=alone, strategy="tuple", _scripts={})
    return compiled


def _wants_tree(bound: Bound, options: Mapping[str, str]) -> bool:
    if options.get("view_tree") == "off":
        return False
    asked = "view_tree" in options or "variable_order" in options or "updatable" in options
    return asked or bool(bound.cofactors)


def _updatable(options: Mapping[str, str], tables: Mapping[str, Table]) -> tuple[str, ...] | None:
    """The tables that the option names, by their full names."""
    if "updatable" not in options:
        return None
    found = []
    for name in options["updatable"].split(","):
        table = same_table(name.strip(), tables)
        if table is None:
            raise UnknownTable(
                f"updatable names {name.strip() or 'no table'}, which the view does not read",
                hint=f"name some of: {', '.join(tables)}",
            )
        found.append(table)
    return tuple(dict.fromkeys(found))
