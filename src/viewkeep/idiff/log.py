"""Diffs that are stored rather than applied, in one table with the rows that they wait for.

One row of an i-diff stands for all the rows that it changes, so what a refresh stores is as small as the
change, whatever the size of the view. A stored target is one table, of rows and of entries:

    BORN   IDS    SETS       the target's columns
    0      null   null       a row, and the refresh that brought it
    7      [pid]  [price]    an entry: refresh 7 gave rows with this pid this price (other columns are null)
    7      [did]  null       an entry: refresh 7 removed the rows with this did

Diffs of one refresh are all against the rows before it, so an entry reaches the rows with

    row's BORN < entry's BORN

and no others: a row that came with the same refresh, or later, is out of its reach though it may have the
same IDs. A row that a removing entry reaches is gone; else each column has the value of the last entry that
reaches the row and sets it. Two entries of one refresh that set the same column agree, since diffs are
effective. Rows and entries share a table because they then share a commit and a snapshot: a reader sees both
of one version, and so does who folds the entries into the rows.

Where all columns of a changed row are known, it is removed and brought again: to read that takes a search
among entries, but no choice between values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, column, conjunction, disjunction, same
from viewkeep.algebra.nodes import Column, Node
from viewkeep.idiff.changes import KIND, is_kind
from viewkeep.idiff.diff import Diff

BORN, IDS, SETS = ":born", ":ids", ":sets"
# a change that is to be folded in names the row, or the entry, by what its BORN was
WAS = ":was"
_ROW, _GONE, _LAST = "viewkeep_row", ":gone", ":last "


@dataclass(frozen=True)
class Shape:
    """Entries by the same IDs: the columns that some of them set, and whether some remove rows."""

    ids: tuple[str, ...]
    sets: tuple[str, ...] = ()
    removes: bool = True


@dataclass(frozen=True)
class Layout:
    """What is stored of a target: its columns, its IDs, and the entries that there may be."""

    columns: tuple[Column, ...]
    ids: tuple[str, ...]
    shapes: tuple[Shape, ...]

    def has_room_for(self, diffs: Iterable[Diff]) -> bool:
        """Whether all these diffs can be entries; readers look for those of known shapes only."""
        known = {shape.ids: shape for shape in self.shapes}
        for diff in diffs:
            shape = known.get(_in_order(diff.ids))
            if diff.kind == "insert":
                continue
            if shape is None or (diff.kind == "delete" and not shape.removes):
                return False
            if not diff.changed <= set(shape.sets):
                return False
        return True


def layout(node: Node, diffs: Iterable[Diff]) -> Layout:
    """The layout of a target that such diffs are stored for. Rows can always be removed by all their IDs."""
    sets: dict[tuple[str, ...], set[str]] = {_in_order(node.ids): set()}
    removes = {_in_order(node.ids)}
    for diff in diffs:
        if diff.kind != "insert":
            sets.setdefault(_in_order(diff.ids), set()).update(diff.changed)
        if diff.kind == "delete":
            removes.add(_in_order(diff.ids))
    shapes = (Shape(ids, tuple(sorted(changed)), ids in removes) for ids, changed in sorted(sets.items()))
    return Layout(node.columns, node.ids, tuple(shapes))


# --- what is stored ---


def rows_to_fill(layout: Layout, query: exp.Query) -> exp.Select:
    """The rows of a query as they are stored first: no entry is old enough to reach them wrongly."""
    return exp.select(*_head(exp.Literal.number(0), None, None), *_own(layout)).from_(_sub(query, "filled"))


def inserted(layout: Layout, born: Expr, query: exp.Query) -> exp.Select:
    """Rows that a refresh brings."""
    return exp.select(*_head(born, None, None), *_own(layout)).from_(_sub(query, "come"))


def entries(layout: Layout, born: Expr, diff: Diff, query: exp.Query) -> exp.Select:
    """An update or delete diff, from the query that selects its IDs and new values, as entries."""
    sets = sorted(diff.changed) if diff.kind == "update" else None
    known = {*diff.ids, *(sets or ())}
    return exp.select(*_head(born, diff.ids, sets), *_own(layout, known)).from_(_sub(query, "diff"))


def replaced(layout: Layout, born: Expr, changes: Expr) -> list[exp.Select]:
    """A change relation (all columns known) as entries that remove the old rows, and the new rows."""
    gone = exp.select(*_head(born, layout.ids, None), *_own(layout, set(layout.ids)))
    come = exp.select(*_head(born, None, None), *_own(layout))
    return [
        gone.from_(changes.copy()).where(exp.Not(this=is_kind("insert"))),
        come.from_(changes.copy()).where(exp.Not(this=is_kind("delete"))),
    ]


def _head(born: Expr, ids: Sequence[str] | None, sets: Sequence[str] | None) -> list[Expr]:
    """What stands before the target's columns."""
    named = _name_of(ids) if ids is not None else exp.Null()
    array = exp.Array(expressions=[exp.Literal.string(s) for s in sets]) if sets is not None else exp.Null()
    values: Mapping[str, Expr] = {
        BORN: exp.Cast(this=born.copy(), to=exp.DataType.build("BIGINT")),
        IDS: exp.Cast(this=named, to=exp.DataType.build("TEXT")),
        SETS: exp.Cast(this=array, to=exp.DataType.build("ARRAY<TEXT>")),
    }
    return [exp.alias_(value, name, quoted=True) for name, value in values.items()]


def _own(layout: Layout, known: set[str] | None = None) -> list[Expr]:
    """The target's columns, null where they are not known."""
    return [
        column(c.name)
        if known is None or c.name in known
        else exp.alias_(exp.Cast(this=exp.Null(), to=c.type.sql()), c.name, quoted=True)
        for c in layout.columns
    ]


def _in_order(ids: Sequence[str]) -> tuple[str, ...]:
    """The IDs of an entry in the one order that they are known by: what is named by did and pid is named by
    pid and did, and whoever reads looks for it once."""
    return tuple(sorted(ids))


def _name_of(ids: Sequence[str]) -> Expr:
    """IDs as entries have them: as JSON, since a column's name may have a comma in it."""
    return exp.Literal.string(json.dumps(_in_order(ids)))


# --- what is read ---


def is_row() -> Expr:
    return exp.Is(this=column(IDS), expression=exp.Null())


def is_entry() -> Expr:
    return exp.Not(this=is_row())


def resolved(layout: Layout, stored: Expr, log: Expr) -> exp.Select:
    """The rows in `stored` as the entries in `log` leave them. Both may be the same table."""
    query = exp.select().from_(_rows(layout, stored))
    for n, shape in enumerate(layout.shapes, start=1):
        side, last = f"viewkeep_entry_{n}", _last(shape, log)
        on = _matched(layout, shape, side)
        if shape.sets:
            query = query.join(_sub(last, side), on=conjunction(on) or exp.true(), join_type="left")
            if shape.removes:
                query = query.where(_unless(_reaches(_of(side, _GONE))))
        else:
            reached = [*on, _reaches(_of(side, _GONE))]
            query = query.join(_sub(last, side), on=conjunction(reached), join_type="left anti")
    return query.select(*_values(layout))


def reached(layout: Layout, rows: Expr, stored: Expr) -> exp.Select:
    """How many rows change by what a refresh stores: those that come, and those before it that an entry
    names."""
    named: list[Expr] = []
    for n, shape in enumerate(layout.shapes, start=1):
        entry = exp.select(exp.Literal.number(1)).from_(
            exp.alias_(stored.copy(), f"viewkeep_{n}", table=True)
        )
        entry = entry.where(exp.EQ(this=_of(f"viewkeep_{n}", IDS), expression=_name_of(shape.ids)))
        for i in shape.ids:
            entry = entry.where(same(_of(f"viewkeep_{n}", i), _of(_ROW, i)))
        named.append(exp.Exists(this=entry))
    before = rows.copy()
    before.set("alias", exp.TableAlias(this=exp.to_identifier(_ROW)))
    touched = exp.select(exp.Count(this=exp.Star())).from_(before).where(disjunction(named))
    come = exp.select(exp.Count(this=exp.Star())).from_(stored.copy()).where(is_row())
    return exp.select(exp.Add(this=exp.Subquery(this=touched), expression=exp.Subquery(this=come)))


def differing(layout: Layout, one: Expr, other: Expr) -> exp.Select:
    """How many rows differ between two relations without entries: those that one of them alone has, and those
    of the same IDs that are not the same."""
    here, sides = ":here", ("viewkeep_one", "viewkeep_other")
    queries = [
        exp.select(exp.alias_(exp.true(), here, quoted=True), *_own(layout)).from_(rows.copy())
        for rows in (one, other)
    ]
    on = conjunction([same(*(_of(side, i) for side in sides)) for i in layout.ids]) or exp.true()
    # a row of NULLs is not the same as none
    alike = [same(*(_of(side, name) for side in sides)) for name in (here, *(c.name for c in layout.columns))]
    query = exp.select(exp.Count(this=exp.Star())).from_(_sub(queries[0], sides[0]))
    query = query.join(_sub(queries[1], sides[1]), on=on, join_type="full")
    return query.where(exp.Not(this=exp.Paren(this=conjunction(alike))))


def to_fold(layout: Layout, born: Expr, stored: Expr, log: Expr, come: Expr | None = None) -> exp.Query:
    """The changes that make rows of entries: for each row that one reaches its end or its new values, and
    for each entry that is in `stored` its end. `come`: rows that are new too."""
    query = exp.select().from_(_rows(layout, stored))
    ends: list[Expr] = []
    reached: list[Expr] = []
    for n, shape in enumerate(layout.shapes, start=1):
        side = f"viewkeep_entry_{n}"
        on = conjunction(_matched(layout, shape, side)) or exp.true()
        query = query.join(_sub(_last(shape, log), side), on=on, join_type="left")
        if shape.removes:
            ends.append(_reaches(_of(side, _GONE)))
        reached += [_reaches(_field(side, c, BORN)) for c in shape.sets]
    kind = exp.Case(
        ifs=[exp.If(this=end, true=exp.Literal.string("delete")) for end in ends],
        default=exp.Literal.string("update"),
    )
    changed = query.select(
        exp.alias_(kind, KIND, quoted=True),
        exp.alias_(_of(_ROW, BORN), WAS, quoted=True),
        *_head(born, None, None),
        *_values(layout),
    ).where(disjunction([*(e.copy() for e in ends), *reached]))
    folded = exp.select(
        exp.alias_(exp.Literal.string("delete"), KIND, quoted=True),
        exp.alias_(column(BORN), WAS, quoted=True),
        *map(column, (BORN, IDS, SETS)),
        *_own(layout),
    )
    parts: list[exp.Query] = [changed, folded.from_(stored.copy()).where(is_entry()).distinct()]
    if come is not None:
        new = exp.select(
            exp.alias_(exp.Literal.string("insert"), KIND, quoted=True),
            exp.alias_(exp.cast(exp.Null(), "BIGINT"), WAS, quoted=True),
            *map(column, (BORN, IDS, SETS)),
            *_own(layout),
        )
        parts.append(new.from_(come.copy()).where(is_row()))
    query_of_all: exp.Query = parts[0]
    for part in parts[1:]:
        query_of_all = exp.Union(this=query_of_all, expression=part, distinct=False)
    return query_of_all


def folded(layout: Layout, stored: Expr, log: Expr) -> exp.Select:
    """All rows as the entries leave them, to be stored in the place of rows and entries."""
    return rows_to_fill(layout, resolved(layout, stored, log))


def both(one: Expr, other: Expr) -> exp.Subquery:
    """Rows and entries of two relations."""
    parts = [exp.select("*").from_(part.copy()) for part in (one, other)]
    return exp.Subquery(this=exp.Union(this=parts[0], expression=parts[1], distinct=False))


def fold(layout: Layout, stored: Expr, changes: exp.Query, *, brings_rows: bool) -> exp.Merge:
    """MERGE INTO stored USING changes: see `to_fold`. BORN tells a row from one of the same IDs that came
    after it was removed."""
    terms = [same(_of("v", i), _of("d", i)) for i in layout.ids]
    terms += [same(_of("v", BORN), _of("d", WAS))]
    terms += [same(_of("v", name), _of("d", name)) for name in (IDS, SETS)]
    others = [c.name for c in layout.columns if c.name not in layout.ids]
    sets = [exp.EQ(this=column(c), expression=_of("d", c)) for c in (*others, BORN)]
    deletes = exp.EQ(this=_of("d", KIND), expression=exp.Literal.string("delete"))
    whens: list[Expr] = [
        exp.When(matched=True, condition=deletes, then=exp.Var(this="DELETE")),
        exp.When(matched=True, then=exp.Update(expressions=sets)),
    ]
    if brings_rows:
        names = [BORN, IDS, SETS, *(c.name for c in layout.columns)]
        inserts = exp.EQ(this=_of("d", KIND), expression=exp.Literal.string("insert"))
        then = exp.Insert(
            this=exp.Tuple(expressions=[column(n) for n in names]),
            expression=exp.Tuple(expressions=[_of("d", n) for n in names]),
        )
        whens.append(exp.When(matched=False, condition=inserts, then=then))
    target = stored.copy()
    target.set("alias", exp.TableAlias(this=exp.to_identifier("v")))
    return exp.Merge(
        this=target,
        using=_sub(changes, "d"),
        on=conjunction(terms),
        whens=exp.Whens(expressions=whens),
    )


def _rows(layout: Layout, stored: Expr) -> exp.Subquery:
    rows = exp.select(column(BORN), *_own(layout)).from_(stored.copy()).where(is_row())
    return _sub(rows, _ROW)


def _last(shape: Shape, log: Expr) -> exp.Select:
    """Of the entries of a shape, for each IDs: the last that removes, and for each column the last that
    sets it, with its value. The value is in a struct with its BORN, which compares first."""
    outputs: list[Expr] = [column(i) for i in shape.ids]
    if shape.removes:
        removes = exp.If(this=exp.Is(this=column(SETS), expression=exp.Null()), true=column(BORN))
        outputs.append(exp.alias_(exp.Max(this=exp.Case(ifs=[removes])), _GONE, quoted=True))
    for c in shape.sets:
        both = exp.Struct(
            expressions=[
                exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=column(value))
                for name, value in ((BORN, BORN), ("value", c))
            ]
        )
        sets = exp.ArrayContains(this=column(SETS), expression=exp.Literal.string(c))
        latest = exp.Max(this=exp.Case(ifs=[exp.If(this=sets, true=both)]))
        outputs.append(exp.alias_(latest, _LAST + c, quoted=True))
    named = exp.EQ(this=column(IDS), expression=_name_of(shape.ids))
    # entries are few: in one partition they are grouped where they are read, without a shuffle
    names = [BORN, SETS, *shape.ids, *shape.sets]
    found = exp.select(*map(column, names)).from_(log.copy()).where(named).hint("COALESCE(1)")
    query = exp.select(*outputs).from_(_sub(found, "found"))
    return query.group_by(*(column(i) for i in shape.ids)) if shape.ids else query


def _matched(layout: Layout, shape: Shape, side: str) -> list[Expr]:
    nullable = {c.name for c in layout.columns if c.nullable}
    return [
        same(_of(side, i), _of(_ROW, i))
        if i in nullable
        else exp.EQ(this=_of(side, i), expression=_of(_ROW, i))
        for i in shape.ids
    ]


def _values(layout: Layout) -> list[Expr]:
    return [exp.alias_(_latest(layout, c.name), c.name, quoted=True) for c in layout.columns]


def _latest(layout: Layout, name: str) -> Expr:
    """A column's value from the last entry that reaches the row and sets it, else the row's own."""
    sides = [f"viewkeep_entry_{n}" for n, s in enumerate(layout.shapes, start=1) if name in s.sets]
    ifs = []
    for side in sides:
        born = _field(side, name, BORN)
        later = [
            exp.GTE(
                this=born.copy(),
                expression=exp.Coalesce(this=_field(other, name, BORN), expressions=[exp.Literal.number(0)]),
            )
            for other in sides
            if other != side
        ]
        ifs.append(exp.If(this=conjunction([_reaches(born), *later]), true=_field(side, name, "value")))
    return exp.Case(ifs=ifs, default=_of(_ROW, name)) if ifs else _of(_ROW, name)


def _reaches(born: Expr) -> Expr:
    """Whether an entry, by its BORN, reaches the row; unknown where there is no entry."""
    return exp.LT(this=_of(_ROW, BORN), expression=born.copy())


def _unless(condition: Expr) -> Expr:
    return exp.Not(this=exp.Paren(this=exp.Coalesce(this=condition, expressions=[exp.false()])))


def _field(side: str, name: str, part: str) -> Expr:
    return exp.Dot(this=_of(side, _LAST + name), expression=exp.to_identifier(part, quoted=True))


def _of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))


def _sub(query: exp.Query, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))
