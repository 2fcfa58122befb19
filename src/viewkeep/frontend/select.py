"""One SELECT: its clauses in the order in which SQL evaluates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, columns_of, conjunction, conjuncts, over_parts, rename
from viewkeep.algebra.nodes import Join, Node, Project, Select, passing
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend.aggregates import AGGREGATES, aggregates_in
from viewkeep.frontend.binding import Binding, Ctes, Inner, Output, equality
from viewkeep.frontend.cofactor import cofactors_of, known_rows, refuse_misplaced, with_categories
from viewkeep.frontend.domain import Domain, bind_domain
from viewkeep.frontend.grouping import Grouping, bind_grouping
from viewkeep.frontend.joins import subqueries_in_where
from viewkeep.frontend.ordering import Sort, limited, orders, output_at, row_counts
from viewkeep.frontend.scope import Field, NeedsDomain, Relation, Scope
from viewkeep.frontend.select_list import no_aggregate, no_array, no_duplicates, select_list
from viewkeep.frontend.set_operations import without_duplicates
from viewkeep.frontend.sources import bind_from
from viewkeep.frontend.stages import Rows, Stage
from viewkeep.frontend.subqueries import Subqueries, has_subquery
from viewkeep.frontend.typed import Typed
from viewkeep.frontend.windows import Windows

_LATER = {
    "sort": ("SORT BY", "order when you read the view"),
    "cluster": ("CLUSTER BY", "leave it out"),
    "distribute": ("DISTRIBUTE BY", "leave it out"),
    "laterals": ("LATERAL VIEW", "join with a table"),
    "pivots": ("PIVOT here", "write it behind a table or a derived table"),
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


def bind_select(
    binding: Binding, tree: exp.Select, ctes: Ctes, outer: Scope | None, by_domain: bool = False
) -> Inner:
    """The plan of a SELECT. `outer` is the scope of the query around it, whose columns it can name: in
    conditions of WHERE, which become `terms`, or anywhere, if it is bound by domain."""
    _refuse_unknown_clauses(binding, tree)
    tree = with_categories(binding, tree)
    refuse_misplaced(binding, tree)
    tree = subqueries_in_where(tree)
    relation = bind_from(binding, tree, ctes)
    scope = binding.scope(relation, outer)
    domain = bind_domain(binding, tree, scope, outer) if by_domain and outer is not None else None
    if domain is not None:
        relation = replace(relation, node=Join(relation.node, domain.relation.node, None))
        scope = binding.scope(relation, binding.scope(domain.relation))
        for known in domain.columns:
            scope.add(known)
    node, terms = _where(binding, tree, relation, scope, ctes, domain)
    outputs = select_list(binding, tree, relation, scope)
    cofactors = cofactors_of(tree)
    if (counted := known_rows(tree, scope)) is not None:
        node = Select(node, counted)
    keys = tuple(name for e, name in outputs if not aggregates_in(e))
    stage: Stage = Rows(node, scope)
    having = None
    grouped = _is_grouped(binding, tree, outputs)
    if grouped:
        below = Subqueries(binding, ctes, scope, stage)
        outputs = [(_lifted_in_aggregates(e, below), name) for e, name in outputs]
        clause = tree.args.get("having")
        condition = _lifted_in_aggregates(clause.this, below) if clause is not None else None
        node = below.attach(node)
        stage = grouping = bind_grouping(binding, tree.args.get("group"), node, scope, outputs)
        terms = [_keyed(term, scope, grouping) for term in terms]
        if condition is not None:
            condition = _by_alias(condition, {name.lower(): e for e, name in outputs}, grouping)
        having = _having(binding, tree, condition, grouping, scope, ctes, terms)

    lifted = Subqueries(binding, ctes, scope, stage)
    named = {w.name.lower(): w for w in tree.args.get("windows") or []}
    windows = Windows(binding, stage, named)
    made = [(windows.lift(lifted.value(e)), name) for e, name in outputs]
    wanted = _qualifying(tree, made, windows, lifted, scope)
    ordering = _ordering(binding, tree, made, windows, lifted)
    items = [binding.item(name, typed) for name, typed in [(name, stage.finish(e)) for e, name in made]]
    no_duplicates(binding, tree, [name for _, name in made])
    qualify = _filter(binding, tree.args["qualify"], stage.finish(wanted)) if wanted is not None else None
    sorts: list[Sort] = [(o, at if isinstance(at, int) else stage.finish(at)) for o, at in ordering]

    node = stage.build()
    correlated = _correlated_by(terms, node)
    if having is not None:
        node = having.over(node)
    node = windows.attach(lifted.attach(node), correlated)
    if qualify is not None:
        node = qualify.over(node)
    hidden = [n for term in terms for n in sorted(columns_of(term)) if n in node.by_name]
    project = Project(node, (*items, *passing(node, dict.fromkeys(hidden)).items))
    if tree.args.get("distinct"):
        project = _distinct(binding, tree, project, correlated)
    one_row = grouped and not any(tree.args.get(key) for key in ("group", "having", "qualify"))
    limit, offset = row_counts(binding, tree)
    if not one_row or limit == 0 or offset:  # else LIMIT 1 cuts one row to one row
        one_row = False
        project = limited(binding, tree, project, sorts, items, correlated)
    fields = tuple(Field("", name, item.column) for (_, name), item in zip(made, items, strict=True))
    empty = tuple(grouping.empty(e, terms) for e, _ in made) if one_row and terms else ()
    relation = Relation(project, fields)
    return Inner(relation, tuple(terms), one_row, empty, cofactors, keys if cofactors else ())


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
    binding: Binding, tree: exp.Select, relation: Relation, scope: Scope, ctes: Ctes, domain: Domain | None
) -> tuple[Node, list[Expr]]:
    """The rows with the conditions that they can decide, and those that look at the outer query. Conditions
    with subqueries come last: what these are computed for need not have more rows than the others leave."""
    written = conjuncts(tree.args["where"].this) if tree.args.get("where") else []
    for part in written:
        no_aggregate(binding, part, "WHERE")
    lifted = Subqueries(binding, ctes, scope, Rows(relation.node, scope))
    plain: list[Expr] = []
    scope.again = lambda: _again(binding, tree, relation, ctes, domain, plain)
    terms: dict[int, Expr] = {}
    for number, part in sorted(enumerate(written), key=lambda pair: has_subquery(pair[1])):
        typed = scope.typing.condition(scope.resolve(lifted.condition(part)), "WHERE")
        terms[number] = typed
        if not has_subquery(part) and not _looks_out(typed, scope):
            plain.append(typed)
    both = conjuncts(conjunction(terms[n] for n in sorted(terms)))
    node = lifted.attach(relation.node)
    kept = conjunction(term for term in both if not _looks_out(term, scope))
    outside = [term for term in both if _looks_out(term, scope)]
    if domain is not None:
        outside += domain.terms()
    return (Select(node, kept) if kept is not None else node), outside


def _looks_out(term: Expr, scope: Scope) -> bool:
    return any(scope.is_outer(name) for name in columns_of(term))


def _again(
    binding: Binding, tree: exp.Select, relation: Relation, ctes: Ctes, domain: Domain | None,
    conditions: Sequence[Expr],
) -> tuple[Node, Mapping[str, str]]:  # fmt: skip
    """FROM, and these conditions of WHERE, a second time under other names."""
    other = bind_from(binding, tree, ctes)
    node = other.node
    called = {a.column.name: b.column.name for a, b in zip(relation.fields, other.fields, strict=True)}
    if domain is not None:
        values, more = domain.again()
        node, called = Join(node, values, None), {**called, **more}
    kept = conjunction(rename(term, lambda name: called[name]) for term in conditions)
    return (Select(node, kept) if kept is not None else node), called


def _correlated_by(terms: Sequence[Expr], node: Node) -> tuple[str, ...] | None:
    """The columns that tell the rows for one outer row from those for another: within these a window, a
    LIMIT or a DISTINCT must stay. None where there are no such."""
    pairs = [equality(term, frozenset(node.names)) for term in terms]
    return tuple(pair[0] for pair in pairs if pair is not None) if all(pairs) else None


# --- groups ---


def _is_grouped(binding: Binding, tree: exp.Select, outputs: list[Output]) -> bool:
    having, qualify = tree.args.get("having"), tree.args.get("qualify")
    searched = [e for e, _ in outputs] + [c.this for c in (having, qualify) if c]
    searched += [o.this for o in orders(tree)]
    grouped = tree.args.get("group") is not None or any(aggregates_in(e) for e in searched)
    if having is not None and not grouped:
        raise binding.fail(Unsupported, having, "HAVING without GROUP BY or aggregates", "use WHERE")
    return grouped


def _keyed(term: Expr, scope: Scope, grouping: Grouping) -> Expr:
    """A condition that looks at the outer query, by a key: one group for each value that it asks for."""
    if isinstance(term, (exp.EQ, exp.NullSafeEQ)):
        for mine, other in ((term.this, term.expression), (term.expression, term.this)):
            own = [not scope.is_outer(name) for name in columns_of(mine)]
            if own and all(own) and all(scope.is_outer(name) for name in columns_of(other)):
                return type(term)(this=grouping.own_key(mine), expression=other.copy())
    raise NeedsDomain


def _never_true(condition: Expr) -> bool:
    """Whether a simplified condition is false or null for sure."""
    if isinstance(condition, exp.And):
        return _never_true(condition.left) or _never_true(condition.right)
    if isinstance(condition, exp.Or):
        return _never_true(condition.left) and _never_true(condition.right)
    nulls = (condition.this, condition.expression) if isinstance(condition, exp.Predicate) else (condition,)
    strict = not isinstance(condition, (exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ))
    return condition == exp.false() or (strict and any(isinstance(side, exp.Null) for side in nulls))


def _lifted_in_aggregates(tree: Expr, below: Subqueries) -> Expr:
    """The expression with the subqueries inside of aggregates replaced: they are about rows, not groups."""
    if isinstance(tree, exp.Query) or not has_subquery(tree):
        return tree
    if isinstance(tree, (exp.Filter, *AGGREGATES)):
        return below.value(tree)
    return over_parts(tree, lambda part: _lifted_in_aggregates(part, below))


def _by_alias(tree: Expr, outputs: Mapping[str, Expr], grouping: Grouping) -> Expr:
    """A condition of HAVING with what the SELECT list calls something in place of the name. What GROUP BY
    groups by comes first, and in an aggregate a name is a column of FROM."""
    if isinstance(tree, (exp.Query, exp.Filter, *AGGREGATES)):
        return tree
    if isinstance(tree, exp.Column):
        named = not tree.table and not tree.meta_get("bound") and tree.name.lower() in outputs
        return exp.Paren(this=outputs[tree.name.lower()].copy()) if named and not grouping.has(tree) else tree
    return over_parts(tree, lambda part: _by_alias(part, outputs, grouping))


def _having(
    binding: Binding, tree: exp.Select, written: Expr | None, grouping: Grouping, scope: Scope, ctes: Ctes,
    terms: Sequence[Expr],
) -> _Filter | None:  # fmt: skip
    if written is None:
        return None
    clause = tree.args["having"]
    lifted = Subqueries(binding, ctes, scope, grouping)
    condition = lifted.condition(written)
    if terms and tree.args.get("group") is None:
        # a value that no row has makes no group, though HAVING COUNT(*) = 0 would be true of it
        bare = grouping.over_nothing(condition).expression.transform(_uncast)
        if not _never_true(simplify(bare)):
            raise binding.fail(
                Unsupported, clause.this, "HAVING may be true of no rows, in a correlated subquery",
                "compare the aggregate outside of the subquery",
            )  # fmt: skip
    return _filter(binding, clause, grouping.finish(condition), lifted)


def _uncast(node: Expr) -> Expr:
    return node.this if isinstance(node, exp.Cast) else node


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
        unbound = isinstance(node, exp.Column) and not node.meta_get("bound") and not node.table
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


def _distinct(
    binding: Binding, tree: exp.Select, project: Project, correlated: tuple[str, ...] | None
) -> Project:
    if tree.args["distinct"].args.get("on"):
        raise binding.fail(Unsupported, tree, "DISTINCT ON is not Spark's", "use ROW_NUMBER and QUALIFY")
    if correlated is None:
        raise NeedsDomain
    no_array(binding, tree, *(c.type for c in project.columns))
    return without_duplicates(binding, project)
