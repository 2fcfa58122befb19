"""One SELECT: its clauses in the order in which SQL evaluates them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, columns_of, conjunction, conjuncts
from viewkeep.algebra.nodes import Node, Project, Select, passing
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend.aggregates import aggregates_in
from viewkeep.frontend.binding import Binding, Ctes, Inner, Output
from viewkeep.frontend.grouping import Grouping, bind_grouping
from viewkeep.frontend.ordering import Sort, limited, orders, output_at
from viewkeep.frontend.scope import Field, Relation, Scope
from viewkeep.frontend.select_list import no_aggregate, no_duplicates, select_list
from viewkeep.frontend.set_operations import without_duplicates
from viewkeep.frontend.sources import bind_from
from viewkeep.frontend.stages import Rows, Stage
from viewkeep.frontend.subqueries import Subqueries
from viewkeep.frontend.typed import Typed
from viewkeep.frontend.windows import Windows

_LATER = {
    "sort": ("SORT BY", "order when you read the view"),
    "cluster": ("CLUSTER BY", "leave it out"),
    "distribute": ("DISTRIBUTE BY", "leave it out"),
    "laterals": ("LATERAL VIEW", "join with a table"),
    "pivots": ("PIVOT", "write one aggregate a column"),
    "sample": ("TABLESAMPLE", "filter by a column; a sample differs each time"),
}
_KNOWN = {"with_", "expressions", "from_", "joins", "where", "group", "having", "distinct", "order", "limit",
          "offset", "windows", "qualify", *_LATER}  # fmt: skip


@dataclass(frozen=True)
class _Filter:
    """HAVING or QUALIFY: a condition, and the joins that its subqueries became."""

    condition: Expr
    lifted: Subqueries | None = None

    def over(self, node: Node) -> Node:
        return Select(self.lifted.attach(node) if self.lifted else node, self.condition)


def bind_select(binding: Binding, tree: exp.Select, ctes: Ctes, outer: Scope | None) -> Inner:
    """The plan of a SELECT. `outer` is the scope of the query around it, whose columns WHERE can name."""
    _refuse_unknown_clauses(binding, tree)
    relation = bind_from(binding, tree, ctes)
    scope = binding.scope(relation, outer)
    node, terms = _where(binding, tree, relation.node, scope, ctes)
    outputs = select_list(binding, tree, relation)
    stage: Stage = Rows(node, scope)
    having = None
    grouped = _is_grouped(binding, tree, outputs)
    if grouped:
        stage = grouping = bind_grouping(binding, tree.args.get("group"), node, scope, outputs)
        terms = [_keyed(binding, term, scope, grouping, tree) for term in terms]
        having = _having(binding, tree, stage, scope, ctes)

    lifted = Subqueries(binding, ctes, scope, stage)
    windows = Windows(binding, stage, {w.name.lower(): w for w in tree.args.get("windows") or []})
    made = [(windows.lift(lifted.value(e)), name) for e, name in outputs]
    wanted = _qualifying(tree, made, windows, lifted, scope)
    ordering = _ordering(binding, tree, made, windows, lifted)
    items = [binding.item(name, typed) for name, typed in [(name, stage.finish(e)) for e, name in made]]
    no_duplicates(binding, tree, [name for _, name in made])
    qualify = _filter(binding, tree.args["qualify"], stage.finish(wanted)) if wanted is not None else None
    sorts: list[Sort] = [(o, at if isinstance(at, int) else stage.finish(at)) for o, at in ordering]

    node = stage.build()
    if having is not None:
        node = having.over(node)
    node = windows.attach(lifted.attach(node))
    if qualify is not None:
        node = qualify.over(node)
    hidden = [n for term in terms for n in sorted(columns_of(term)) if n in node.by_name]
    project = Project(node, (*items, *passing(node, dict.fromkeys(hidden)).items))
    if tree.args.get("distinct"):
        project = _distinct(binding, tree, project)
    project = limited(binding, tree, project, sorts, items, terms)
    fields = tuple(Field("", name, item.column) for (_, name), item in zip(made, items, strict=True))
    one_row = grouped and not any(tree.args.get(key) for key in ("group", "having", "qualify"))
    empty = grouping.empty(made[0][0]) if one_row and len(made) == 1 else None
    return Inner(Relation(project, fields), tuple(terms), one_row, empty)


def _refuse_unknown_clauses(binding: Binding, tree: exp.Select) -> None:
    for key, part in tree.args.items():
        if not part or (key in _KNOWN and key not in _LATER):
            continue
        node = part[0] if isinstance(part, list) else part
        if key not in _LATER:
            place = node if isinstance(node, exp.Expr) else tree
            raise binding.fail(
                Unsupported, place, f"{key.strip('_').upper()} is not supported", "leave it out"
            )
        what, instead = _LATER[key]
        problem = binding.fail(Unsupported, node, f"{what} is not supported yet", instead)
        problem.place = binding.keyword(what.split()[0], problem.place)
        raise problem


def _where(
    binding: Binding, tree: exp.Select, node: Node, scope: Scope, ctes: Ctes
) -> tuple[Node, list[Expr]]:
    """The node with the conditions that it can decide, and those that look at the outer query."""
    where = tree.args.get("where")
    if where is None:
        return node, []
    no_aggregate(binding, where.this, "WHERE")
    lifted = Subqueries(binding, ctes, scope, Rows(node, scope))
    condition = scope.typing.condition(scope.resolve(lifted.condition(where.this)), "WHERE")
    inside: list[Expr] = []
    outside: list[Expr] = []
    for term in conjuncts(condition):
        looks_out = any(scope.is_outer(name) for name in columns_of(term))
        (outside if looks_out else inside).append(term)
    node = lifted.attach(node)
    kept = conjunction(inside)
    return (Select(node, kept) if kept is not None else node), outside


# --- groups ---


def _is_grouped(binding: Binding, tree: exp.Select, outputs: list[Output]) -> bool:
    having, qualify = tree.args.get("having"), tree.args.get("qualify")
    searched = [e for e, _ in outputs] + [c.this for c in (having, qualify) if c]
    searched += [o.this for o in orders(tree)]
    grouped = tree.args.get("group") is not None or any(aggregates_in(e) for e in searched)
    if having is not None and not grouped:
        raise binding.fail(Unsupported, having, "HAVING without GROUP BY or aggregates", "use WHERE")
    return grouped


def _keyed(binding: Binding, term: Expr, scope: Scope, grouping: Grouping, tree: Expr) -> Expr:
    """A condition that looks at the outer query, by a key: one group for each value that it asks for."""
    sides = (term.this, term.expression) if isinstance(term, exp.EQ) else ()
    for mine, other in (sides, sides[::-1]) if sides else ():
        own = [scope.is_outer(name) for name in columns_of(mine)]
        if own and not any(own) and all(scope.is_outer(name) for name in columns_of(other)):
            return exp.EQ(this=grouping.own_key(mine), expression=other.copy())
    raise binding.fail(
        Unsupported, tree, "an aggregate that depends on the outer row by more than equality",
        "compare with = in the subquery's WHERE, or join and aggregate",
    )  # fmt: skip


def _having(binding: Binding, tree: exp.Select, stage: Stage, scope: Scope, ctes: Ctes) -> _Filter | None:
    clause = tree.args.get("having")
    if clause is None:
        return None
    lifted = Subqueries(binding, ctes, scope, stage)
    return _filter(binding, clause, stage.finish(lifted.condition(clause.this)), lifted)


def _filter(binding: Binding, clause: Expr, typed: Typed, lifted: Subqueries | None = None) -> _Filter:
    if typed.type not in (t.BOOLEAN, t.NULL):
        raise binding.fail(
            TypeMismatch, clause.this, f"{clause.key.upper()} must be true or false", "compare it"
        )
    return _Filter(typed.expression, lifted)


# --- after the SELECT list ---


def _qualifying(
    tree: exp.Select, made: list[Output], windows: Windows, lifted: Subqueries, scope: Scope
) -> Expr | None:
    """The condition of QUALIFY. It may name what the SELECT list calls something, where FROM has no such
    column."""
    clause = tree.args.get("qualify")
    if clause is None:
        return None
    by_alias = {name.lower(): e for e, name in made}

    def swap(node: Expr) -> Expr:
        unbound = isinstance(node, exp.Column) and not node.meta.get("bound") and not node.table
        if unbound and not scope.has(node.name) and node.name.lower() in by_alias:
            return exp.Paren(this=by_alias[node.name.lower()].copy())
        return node

    return windows.lift(lifted.condition(clause.this)).copy().transform(swap)


def _ordering(
    binding: Binding, tree: exp.Select, made: list[Output], windows: Windows, lifted: Subqueries
) -> list[tuple[Expr, int | Expr]]:
    """What ORDER BY sorts by: the positions of outputs, or expressions of its own."""
    names = [name for _, name in made]
    found: list[tuple[Expr, int | Expr]] = []
    for entry in orders(tree):
        at = output_at(binding, entry.this, names)
        found.append((entry, at if at is not None else windows.lift(lifted.value(entry.this))))
    return found


def _distinct(binding: Binding, tree: exp.Select, project: Project) -> Project:
    if tree.args["distinct"].args.get("on"):
        raise binding.fail(Unsupported, tree, "DISTINCT ON is not Spark's", "use ROW_NUMBER and QUALIFY")
    return without_duplicates(binding, project)
