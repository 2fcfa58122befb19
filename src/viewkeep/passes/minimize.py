"""Pass 4: each query made as small as its meaning allows (idIVM section 4, pass 4; figure 8).

Ordinary rules move semijoins with a diff down to the table that they restrict, and start every join at its
smallest input, the diff. The rules of figure 8 then use what a diff is: the rows of R that a diff on R
names are in the diff itself, so R need not be read for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from viewkeep.algebra.bags import is_bag, numbered, occurrence_of
from viewkeep.algebra.expressions import (
    Expr,
    column,
    columns_of,
    conjunction,
    conjuncts,
    equated_columns,
    pre_name,
    substitute,
)
from viewkeep.algebra.nodes import (
    Aggregate,
    Item,
    Join,
    MarkJoin,
    Node,
    OuterJoin,
    Project,
    Scan,
    Select,
    UnionAll,
    Window,
    passing,
    rebuild,
)
from viewkeep.algebra.script_nodes import BaseDiff, Empty, Images, Ref, SemiJoin, Union
from viewkeep.script.model import Let, Script

Lets = Mapping[str, Node]


def minimize(script: Script) -> Script:
    """The script with every query minimized."""
    lets: dict[str, Node] = {}
    made = []
    for let in script.lets:
        query = minimize_query(let.query, lets)
        lets[let.name] = query
        made.append(Let(let.name, query, let.unless_empty))
    applies = []
    for apply in script.applies:
        diffs = tuple(replace(d, query=minimize_query(d.query, lets)) for d in apply.diffs)
        kept = tuple(d for d in diffs if not isinstance(d.query, Empty))
        applies.append(replace(apply, diffs=kept))
    return replace(script, lets=tuple(made), applies=tuple(applies))


def minimize_query(query: Node, lets: Lets) -> Node:
    """All rules, once each, in the order in which they feed each other."""
    rules: list[Callable[[Node], Node]] = [
        push_semijoin_down,
        lambda node: take_rows_from_diff(node, lets),
        lambda node: drop_what_is_empty(node, lets),
        merge_selections,
        merge_projections,
        start_joins_at_diff,
    ]
    for rule in rules:
        query = rebuild(query, rule)
    query = reduce_what_a_diff_joins(query)
    return rebuild(query, number_only_rows_looked_up)


def push_semijoin_down(node: Node) -> Node:
    """PushSemiJoinIntoInput: (A join B) semijoin d -> (A semijoin d) join B, where d names columns of A.

    Not through an aggregate unless d names its keys: a group needs all its rows.
    """
    if not isinstance(node, SemiJoin) or node.anti:
        return node
    below, on = node.left, node.on
    if isinstance(below, Select):
        return replace(below, input=push_semijoin_down(replace(node, left=below.input)))
    if isinstance(below, Project):
        made = {item.name: item for item in below.items}
        fixed = [(made[a].expression, b) for a, b in on if not columns_of(made[a].expression)]
        moved = [(made[a].copies, b) for a, b in on if columns_of(made[a].expression)]
        if all(a is not None for a, _ in moved) and moved:
            pairs = tuple((a, b) for a, b in moved if a is not None)
            # a constant of this input, such as a union's tag, asks something of the diff alone
            right = node.right
            for value, b in fixed:
                right = Select(right, exp.NullSafeEQ(this=column(b), expression=value.copy()))
            return replace(below, input=push_semijoin_down(SemiJoin(below.input, right, pairs)))
    if isinstance(below, Join):
        for side, other in ((below.left, below.right), (below.right, below.left)):
            pairs = tuple((_called_in(side, below, a), b) for a, b in on)
            if all(a for a, _ in pairs):
                inner = push_semijoin_down(replace(node, left=side, on=pairs))
                sides = (inner, other) if side is below.left else (other, inner)
                return replace(below, left=sides[0], right=sides[1])
        if _is_small(node.right):
            return replace(node, left=_reduced_by(below, node))
    if isinstance(below, (MarkJoin, OuterJoin)) and on:
        names = [a for a, _ in on]
        # padded rows have nulls for a whole side, and nulls match: only what cannot be null asks for none
        told = any(not node.right.by_name[b].nullable for _, b in on)
        full = isinstance(below, OuterJoin) and below.full
        if all(a in below.left.by_name for a in names) and (told or not full):
            inner = push_semijoin_down(replace(node, left=below.left))
            partners = _partners_of(below, node)
            # of a full join only the rows of these left rows are asked for: padded right rows are not
            if isinstance(below, MarkJoin):
                return below.with_inputs([inner, partners])
            return OuterJoin(inner, partners, below.condition)
        if isinstance(below, OuterJoin) and told and all(a in below.right.by_name for a in names):
            inner = push_semijoin_down(replace(node, left=below.right))
            if not below.full:
                return Join(below.left, inner, below.condition)
            return passing(OuterJoin(inner, below.left, below.condition), below.names)
    if isinstance(below, UnionAll):
        parts = []
        for number, part in enumerate(below.parts):
            own = {new: old for old, new in below.calls(number).items()}
            pairs = tuple((own[a], b) for a, b in on)
            parts.append(push_semijoin_down(replace(node, left=part, on=pairs)))
        return below.with_inputs(parts)
    if isinstance(below, Window) and {a for a, _ in on} <= set(below.partition) and on:
        return below.with_inputs([push_semijoin_down(replace(node, left=below.input))])
    if isinstance(below, Union):
        parts = [push_semijoin_down(replace(node, left=part)) for part in below.parts]
        return replace(below, parts=tuple(parts))
    if isinstance(below, Aggregate) and {a for a, _ in on} <= set(below.keys) and on:
        return replace(below, input=push_semijoin_down(replace(node, left=below.input)))
    return node


def _reduced_by(join: Join, node: SemiJoin) -> Join:
    """ReduceInputs: (A join B) semijoin d, where d names columns of both, with A and B without the rows that
    d does not name. The semijoin stays: d has (1, 1) and (2, 2), and the join may pair 1 with 2."""
    sides = []
    for side in (join.left, join.right):
        pairs = tuple((name, b) for a, b in node.on if (name := _called_in(side, join, a)))
        sides.append(push_semijoin_down(SemiJoin(side, node.right, pairs)) if pairs else side)
    return replace(join, left=sides[0], right=sides[1])


def _partners_of(join: MarkJoin | OuterJoin, node: SemiJoin) -> Node:
    """ReducePartners: of the right side only rows that can meet a left row which d names are of interest."""
    if not _is_small(node.right):
        return join.right
    named = dict(node.on)
    pairs = []
    for a, b in equated_columns(join.condition):
        for own, other in ((a, b), (b, a)):
            if other in join.right.by_name and own in named:
                pairs.append((other, named[own]))
    if not pairs:
        return join.right
    return push_semijoin_down(SemiJoin(join.right, node.right, tuple(dict(pairs).items())))


def _called_in(side: Node, join: Join, name: str) -> str:
    """What one side of a join calls a column, itself or one that the join makes equal to it."""
    if name in side.by_name:
        return name
    return next((n for n in sorted(join.equal_to(name)) if n in side.by_name), "")


def take_rows_from_diff(node: Node, lets: Lets) -> Node:
    """Figure 8: R semijoin (diff on R), by R's key -> the rows that the diff carries.

    After the change a row that was inserted or updated is what its diff says, and a deleted one is not
    there; before the change the same holds the other way round. The diff may have been filtered and
    projected since; its rows then still name keys of the base diff that it came from, and are the rows of
    that which pass the filters, or those that a semijoin with it finds.
    """
    if not isinstance(node, SemiJoin) or not isinstance(node.left, Scan):
        return node
    scan = node.left
    origin = origin_of(node.right, lets)
    if origin is None or origin.scan.table != scan.table:
        return node
    key_of = {k: origin.scan.base_name[k] for k in origin.scan.key}
    named = {(scan.base_name[a], key_of.get(trace(node.right, b, lets) or "")) for a, b in node.on}
    if named != {(k, k) for k in key_of.values()}:
        return node
    gone = "delete" if scan.state == "post" else "insert"
    if node.anti:
        # R antijoin (deleted rows) -> R, since they are not in R any more
        return scan if origin.kind == gone else node
    if origin.kind == gone:
        return Empty(scan.columns)
    by_base = {base: name for name, base in origin.scan.base_name.items()}
    if not all(base in by_base for _, base in scan.fields):
        return node
    old = scan.state == "pre" and origin.kind == "update"

    def value(base: str) -> str:
        name = by_base[base]
        return pre_name(name) if old and name not in origin.scan.key else name

    items = tuple(Item(c, column(value(base))) for c, base in scan.fields)
    filtered = _filtered(node.right)
    if filtered is not None:
        return Project(filtered[0], items)
    return replace(node, left=Project(origin, items))


def _filtered(node: Node) -> tuple[Node, Mapping[str, Expr]] | None:
    """A relation made of a base diff by selections and projections alone: the rows of the diff that it has,
    and what its columns are of them. Not one that is computed before: it may not be, unless another has rows.
    """
    if isinstance(node, BaseDiff):
        return node, {name: column(name) for name in node.names}
    if not isinstance(node, (Select, Project)) or (found := _filtered(node.input)) is None:
        return None
    rows, made = found
    if isinstance(node, Select):
        return Select(rows, substitute(node.predicate, made)), made
    return rows, {item.name: substitute(item.expression, made) for item in node.items}


def origin_of(node: Node, lets: Lets) -> BaseDiff | None:
    """The base diff whose rows a relation is a part of, one for one, if it is that simple."""
    if isinstance(node, BaseDiff):
        return node
    if isinstance(node, (Select, Project)):
        return origin_of(node.input, lets)
    if isinstance(node, SemiJoin):
        return origin_of(node.left, lets)
    if isinstance(node, Ref) and node.name in lets:
        return origin_of(lets[node.name], lets)
    return None


def trace(node: Node, name: str, lets: Lets) -> str | None:
    """What the origin calls a column that a relation merely passes on."""
    if isinstance(node, Project):
        copied = next(i.copies for i in node.items if i.name == name)
        return trace(node.input, copied, lets) if copied is not None else None
    if isinstance(node, Select):
        return trace(node.input, name, lets)
    if isinstance(node, SemiJoin):
        return trace(node.left, name, lets)
    if isinstance(node, Ref) and node.name in lets:
        return trace(lets[node.name], name, lets)
    return name


def drop_what_is_empty(node: Node, lets: Lets) -> Node:
    """DropEmptyInputs: what joins with nothing is nothing."""
    if isinstance(node, Ref) and isinstance(lets.get(node.name), Empty):
        return Empty(node.columns)
    if isinstance(node, Union):
        parts = tuple(p for p in node.parts if not isinstance(p, Empty))
        if not parts:
            return Empty(node.columns)
        return parts[0] if len(parts) == 1 and not node.distinct else replace(node, parts=parts)
    if isinstance(node, SemiJoin) and isinstance(node.right, Empty):
        return node.left if node.anti else Empty(node.columns)
    if isinstance(node, UnionAll):
        return node  # its parts have names of their own
    keyless = isinstance(node, Aggregate) and not node.keys
    full = isinstance(node, OuterJoin) and node.full
    first = node.inputs[0] if node.inputs else None
    dead = isinstance(first, Empty) or (isinstance(node, Join) and isinstance(node.right, Empty))
    if dead and not keyless and not full:
        return Empty(node.columns)
    return node


def merge_selections(node: Node) -> Node:
    """Select(Select(x, a), b) -> Select(x, a AND b), each condition once."""
    if isinstance(node, Select) and isinstance(node.input, Select):
        joined = conjunction(dict.fromkeys(conjuncts(node.input.predicate) + conjuncts(node.predicate)))
        assert joined is not None
        return Select(node.input.input, joined)
    return node


def merge_projections(node: Node) -> Node:
    """Project(Project(x)) -> Project(x), and a selection above a projection goes below it."""
    if isinstance(node, Select) and isinstance(node.input, Project):
        inner = {i.name: i.expression for i in node.input.items}
        below = merge_selections(Select(node.input.input, substitute(node.predicate, inner)))
        return merge_projections(Project(below, node.input.items, apart=node.input.apart))
    if isinstance(node, Project) and isinstance(node.input, Project) and not node.input.apart:
        inner = {i.name: i.expression for i in node.input.items}
        items = (replace(i, expression=substitute(i.expression, inner)) for i in node.items)
        return Project(node.input.input, tuple(items), apart=node.apart)
    return node


def start_joins_at_diff(node: Node) -> Node:
    """StartJoinsAtDiff: A join (B join diff) -> (diff join B) join A, along the conditions.

    Engines that do not reorder joins (Spark, by default) would else join A with B in full.
    """
    if not isinstance(node, Join):
        return node
    leaves, terms = _flatten(node)
    small = [leaf for leaf in leaves if _is_small(leaf)]
    if len(leaves) < 3 or not small:
        return node
    plan: Node = small[0]
    rest = [leaf for leaf in leaves if leaf is not plan]
    while rest:
        joined = frozenset(plan.names)
        following = next((leaf for leaf in rest if _connected(joined, leaf, terms)), rest[0])
        rest = [leaf for leaf in rest if leaf is not following]
        reach = joined | frozenset(following.names)
        here = [t for t in terms if columns_of(t) <= reach]
        terms = [t for t in terms if t not in here]
        plan = Join(plan, following, conjunction(here))
    return passing(plan, node.names)


def reduce_what_a_diff_joins(node: Node) -> Node:
    """ReduceJoinedWithDiff: d join X -> d join (X semijoin d), by the columns that the join equates.

    Where X is tables and inner joins, engines pass the values of d on to them by themselves; not through the
    rest, and the rows of a table without a key are numbered first, which is work for the whole table. Not for
    the side of an outer join of which all rows are kept. From the top down, each semijoin with the other side
    as it was: with what was made of it, n joins would be 2^n.
    """
    if isinstance(node, SemiJoin):
        return node.with_inputs([reduce_what_a_diff_joins(node.left), node.right])
    if isinstance(node, Join):
        node = node.with_inputs(
            [_told_by(node.left, node.right, node), _told_by(node.right, node.left, node)]
        )
    elif isinstance(node, OuterJoin) and not node.full:
        node = node.with_inputs([node.left, _told_by(node.right, node.left, node)])
    return node.with_inputs([reduce_what_a_diff_joins(child) for child in node.inputs])


def _told_by(side: Node, other: Node, join: Join | OuterJoin) -> Node:
    """A side of a join, asked only for what the other side asks for."""
    if not _is_small(other) or _is_small(side) or _is_plain(side):
        return side
    pairs = equated_columns(join.condition)
    on = tuple(
        p for a, b in pairs for p in ((a, b), (b, a)) if p[0] in side.by_name and p[1] in other.by_name
    )
    if not on:
        return side
    return push_semijoin_down(SemiJoin(side, passing(other, [b for _, b in on]), on))


def _is_plain(node: Node) -> bool:
    """Whether a relation is made of tables with keys by selections, projections and inner joins alone."""
    if isinstance(node, (Select, Project, Join)):
        return all(_is_plain(child) for child in node.inputs)
    return not node.inputs and not is_bag(node)


def number_only_rows_looked_up(node: Node) -> Node:
    """NumberOnlyRowsLookedUp: B semijoin d, where B is a table without a key -> the rows of B with values of
    d, numbered. Rows with equal values are in or out together, so each keeps its number."""
    if not isinstance(node, SemiJoin) or node.anti or not is_bag(node.left):
        return node
    number = occurrence_of(node.left)
    values = tuple((a, b) for a, b in node.on if a != number)
    if not values:
        return node
    rows = push_semijoin_down(SemiJoin(numbered(node.left), node.right, values))
    return rows if values == node.on else replace(node, left=rows)


def _flatten(node: Node) -> tuple[list[Node], list[Expr]]:
    """The leaves of a tree of joins and all its conditions, selections and copies on the way lifted."""
    if isinstance(node, Join):
        left, left_terms = _flatten(node.left)
        right, right_terms = _flatten(node.right)
        return left + right, left_terms + right_terms + conjuncts(node.condition)
    if isinstance(node, Project) and all(i.copies == i.name for i in node.items):
        inner, terms = _flatten(node.input)
        if len(inner) > 1:
            return inner, terms
    return [node], []


def _connected(joined: frozenset[str], leaf: Node, terms: list[Expr]) -> bool:
    own = frozenset(leaf.names)
    return any(columns_of(t) & joined and columns_of(t) & own for t in terms)


def _is_small(node: Node) -> bool:
    """Whether a relation is as small as a diff: it is one, or it is restricted by one."""
    if isinstance(node, (BaseDiff, Images, Ref)):
        return True
    if isinstance(node, (Select, Project)):
        return _is_small(node.input)
    if isinstance(node, SemiJoin):
        return not node.anti or _is_small(node.left)
    if isinstance(node, Join):
        return _is_small(node.left) or _is_small(node.right)
    if isinstance(node, Union):
        return all(_is_small(p) for p in node.parts)
    return False
