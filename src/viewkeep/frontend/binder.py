"""A SELECT over known tables -> a plan. Names become plan columns, types are checked, all else is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, product

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.bags import bag_scan
from viewkeep.algebra.expressions import Expr, column, columns_of, conjunction, conjuncts
from viewkeep.algebra.nodes import (
    Aggregate,
    Column,
    Constant,
    Item,
    Join,
    Limit,
    MarkJoin,
    Measure,
    Node,
    Order,
    OuterJoin,
    Project,
    Scan,
    Select,
    UnionAll,
    Window,
    walk,
)
from viewkeep.catalog.models import Table
from viewkeep.errors import (
    AmbiguousColumn,
    Place,
    TypeMismatch,
    UnknownColumn,
    UnknownTable,
    Unsupported,
    ViewkeepError,
)
from viewkeep.frontend.grouping import Grouping, aggregates_in
from viewkeep.frontend.scope import Field, Relation, Scope, bound
from viewkeep.frontend.statements import place_at, place_of, tokenize
from viewkeep.frontend.subqueries import Inner, Subqueries, has_subquery
from viewkeep.frontend.typing import Typed
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
Ctes = Mapping[str, Callable[[], Relation]]


@dataclass
class _Stage:
    """What the SELECT list stands on: rows, or groups. `finish` types an expression over it, `add` makes a
    joined column known, `rewrite` says what a column of FROM is called in it, `build` makes the plan."""

    node: Node
    finish: Callable[[Expr], Typed]
    add: Callable[[Column], Expr]
    rewrite: Callable[[Expr], Expr] = lambda tree: tree
    if_empty: Callable[[Expr], Expr | None] | None = None
    build: Callable[[], Node] = lambda: Constant(Column("", t.INT), ())

    def __post_init__(self) -> None:
        self.build = lambda: self.node


@dataclass(frozen=True)
class Bound:
    """A bound query: its plan, and the user's name for each of the plan's columns."""

    plan: Project
    names: tuple[str, ...]
    tells_null_from_false: bool = False
    """A comparison with a subquery stands where it matters whether it is false or null."""


def bind(query: Expr, find_table: Callable[[str], Table | None], text: str, start: int = 0) -> Bound:
    """The plan of a query. `text` is the whole statement and `start` where the query begins in it."""
    binder = _Binder(find_table, text, start)
    relation = binder.query(query, {})
    assert isinstance(relation.node, Project)
    if not any(isinstance(node, Scan) for node in walk(relation.node)):
        raise binder.fail(Unsupported, query, "a view needs a base table", "select from one")
    names = tuple(f.name for f in relation.fields)
    return Bound(relation.node, names, binder.tells_null_from_false)


class _Binder:
    def __init__(self, find_table: Callable[[str], Table | None], text: str, start: int) -> None:
        self._find_table = find_table
        self._text = text
        self._start = start
        self._taken: set[str] = set()
        self.refused: dict[str, Mapping[str, str]] = {}
        self.tells_null_from_false = False

    def fail(self, kind: type[ViewkeepError], node: Expr, message: str, hint: str) -> ViewkeepError:
        """An error at a node's place; a node without one borrows its nearest ancestor's."""
        at = node
        while (place := place_of(at, self._text, self._start)) is None and at.parent is not None:
            at = at.parent
        return kind(message, hint=hint, place=place)

    def _keyword(self, word: str, before: Place | None) -> Place | None:
        """Where a clause's keyword stands: sqlglot keeps places of names alone."""
        found = before
        for token in tokenize(self._text):
            place = place_at(self._text, token.start)
            if before is not None and (place.line, place.column) > (before.line, before.column):
                break
            if token.text.upper().split()[:1] == [word]:
                found = place
        return found

    def _scope(self, relation: Relation) -> Scope:
        return Scope(relation, self.fail, self.refused)

    def _fresh(self, wanted: str) -> str:
        """A plan column name that is not taken yet; case does not tell names apart."""
        wanted = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted).strip("_") or "c"
        name, n = wanted, 1
        while name.lower() in self._taken:
            n += 1
            name = f"{wanted}_{n}"
        self._taken.add(name.lower())
        return name

    # --- queries ---

    def query(self, tree: Expr, ctes: Ctes) -> Relation:
        """A query that looks at nothing outside itself."""
        return self._bound(tree, ctes, None).relation

    def _bound(self, tree: Expr, ctes: Ctes, outer: Scope | None) -> Inner:
        if isinstance(tree, exp.Subquery):
            if tree.args.get("with_"):
                ctes = self._ctes(tree, ctes)
            inner = tree.this.copy()
            for key in ("order", "limit", "offset"):  # (SELECT ...) LIMIT 3
                if tree.args.get(key):
                    inner = exp.select("*").from_(
                        exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("q")))
                    )
                    inner.set("order", tree.args.get("order"))
                    inner.set("limit", tree.args.get("limit"))
                    inner.set("offset", tree.args.get("offset"))
                    break
            return self._bound(inner, ctes, outer)
        if isinstance(tree, exp.SetOperation):
            return Inner(self._set_operation(tree, ctes), ())
        if not isinstance(tree, exp.Select):
            raise self.fail(Unsupported, tree, "a view is a SELECT", "write SELECT ... FROM ...")
        self._refuse_later(tree)
        return self._select(tree, self._ctes(tree, ctes), outer)

    # --- SELECT ---

    def _select(self, tree: exp.Select, ctes: Ctes, outer: Scope | None) -> Inner:
        relation = self._from(tree, ctes)
        scope = Scope(relation, self.fail, self.refused, outer)
        node, outside = self._where(tree, relation.node, scope, ctes)
        outputs = self._select_list(tree, relation)
        having, qualify = tree.args.get("having"), tree.args.get("qualify")
        searched = [e for e, _ in outputs] + [c.this for c in (having, qualify) if c]
        searched += [o.this for o in self._orders(tree)]
        group = tree.args.get("group")
        aggregated = group is not None or any(aggregates_in(e) for e in searched)
        if having is not None and not aggregated:
            raise self.fail(Unsupported, having, "HAVING without GROUP BY or aggregates", "use WHERE")
        if aggregated:
            stage, terms = self._grouped(tree, node, scope, ctes, outputs, outside)
        else:
            stage = _Stage(node, lambda e: scope.typing.type(scope.resolve(e)), scope.add)
            terms = outside
        lifted = self._subqueries(scope, ctes, stage)
        windows = Windows(self.fail, self._fresh, stage.finish, stage.add, self._named_windows(tree))
        made = [(windows.lift(lifted.value(e)), name) for e, name in outputs]
        by_alias = {name.lower(): e for e, name in made}
        filtering = windows.lift(lifted.condition(qualify.this)) if qualify else None
        if qualify is not None and filtering is not None:
            filtering = _with_aliases(filtering, by_alias, scope)
        ordering = [self._ordering(o, made, windows, lifted, scope) for o in self._orders(tree)]
        typed = [(name, stage.finish(e)) for e, name in made]
        items = [self._item(name, its) for name, its in typed]
        self._no_duplicates(tree, items)
        kept = None
        if filtering is not None and qualify is not None:
            kept = stage.finish(filtering)
            if kept.type not in (t.BOOLEAN, t.NULL):
                raise self.fail(TypeMismatch, qualify, "QUALIFY must be true or false", "compare it")
        sorts = [(o, at if isinstance(at, int) else stage.finish(at)) for o, at in ordering]
        node = stage.build()
        node = windows.attach(lifted.attach(node))
        if kept is not None:
            node = Select(node, kept.expression)
        own = [item for _, item in items]
        hidden = [node.by_name[n] for term in terms for n in sorted(columns_of(term)) if n in node.by_name]
        extra = {c.name: Item(c, column(c.name)) for c in hidden}
        project = Project(node, (*own, *extra.values()))
        fields = tuple(Field("", name, item.column) for name, item in items)
        if tree.args.get("distinct"):
            project = self._distinct(tree, project, len(own))
        limited = self._limited(tree, project, sorts, own, terms)
        one_row = aggregated and group is None and having is None and not qualify
        empty = stage.if_empty(made[0][0]) if one_row and len(made) == 1 and stage.if_empty else None
        return Inner(Relation(limited, fields), tuple(terms), one_row, empty)

    def _where(self, tree: exp.Select, node: Node, scope: Scope, ctes: Ctes) -> tuple[Node, list[Expr]]:
        """The node with the conditions that it can decide, and those that look at the outer query."""
        where = tree.args.get("where")
        if where is None:
            return node, []
        self._no_aggregate(where.this, "WHERE")
        stage = _Stage(node, lambda e: scope.typing.type(scope.resolve(e)), scope.add)
        lifted = self._subqueries(scope, ctes, stage)
        condition = scope.typing.condition(scope.resolve(lifted.condition(where.this)), "WHERE")
        node = lifted.attach(node)
        inside: list[Expr] = []
        outside: list[Expr] = []
        for term in conjuncts(condition):
            looks_out = any(scope.is_outer(name) for name in columns_of(term))
            (outside if looks_out else inside).append(term)
        kept = conjunction(inside)
        return (Select(node, kept) if kept is not None else node), outside

    def _subqueries(self, scope: Scope, ctes: Ctes, stage: _Stage) -> Subqueries:
        def bind_inner(tree: Expr, outer: Scope) -> Inner:
            return self._bound(tree, ctes, outer)

        def note() -> None:
            self.tells_null_from_false = True

        return Subqueries(
            scope, bind_inner, self.fail, self._fresh, stage.finish, stage.add, stage.rewrite, note
        )

    def _named_windows(self, tree: exp.Select) -> dict[str, exp.Window]:
        return {w.name.lower(): w for w in tree.args.get("windows") or []}

    def _orders(self, tree: exp.Select) -> list[Expr]:
        """ORDER BY counts only where LIMIT or OFFSET cuts: a stored view has no order."""
        cuts = tree.args.get("limit") or tree.args.get("offset")
        return list(tree.args["order"].expressions) if cuts and tree.args.get("order") else []

    def _ordering(
        self, entry: Expr, made: list[tuple[Expr, str]], windows: Windows, lifted: Subqueries, scope: Scope
    ) -> tuple[Expr, int | Expr]:
        """A sort key: the position of an output, or an expression of its own."""
        wanted = entry.this
        if isinstance(wanted, exp.Literal) and not wanted.is_string:
            position = int(wanted.name) if wanted.name.isdigit() else 0
            if not 1 <= position <= len(made):
                raise self.fail(
                    UnknownColumn, wanted, f"there is no column {wanted.name} in the SELECT list",
                    f"count from 1 to {len(made)}",
                )  # fmt: skip
            return entry, position - 1
        if isinstance(wanted, exp.Column) and not wanted.table:
            for n, (_, name) in enumerate(made):
                if name.lower() == wanted.name.lower():
                    return entry, n
        return entry, windows.lift(lifted.value(wanted))

    def _distinct(self, tree: exp.Select, project: Project, width: int) -> Project:
        """SELECT DISTINCT is GROUP BY all columns."""
        distinct = tree.args["distinct"]
        if distinct.args.get("on"):
            raise self.fail(Unsupported, tree, "DISTINCT ON is not Spark's", "use ROW_NUMBER and QUALIFY")
        return self._without_duplicates(project, len(project.items))

    def _without_duplicates(self, project: Node, width: int) -> Project:
        keys = project.names[:width]
        rows = Measure(Column(self._fresh("n"), t.BIGINT, nullable=False), "rows")
        grouped = Aggregate(project, tuple(keys), (rows,))
        return Project(grouped, tuple(Item(grouped.by_name[k], column(k)) for k in keys))

    def _limited(
        self, tree: exp.Select, project: Project, sorts: list[tuple[Expr, int | Typed]], own: list[Item],
        terms: list[Expr],
    ) -> Project:  # fmt: skip
        """The first rows, where LIMIT or OFFSET asks for them; what they are ordered by goes again."""
        limit, offset = (self._count(tree, key) for key in ("limit", "offset"))
        if limit is None and offset is None:
            return project
        if terms:
            raise self.fail(
                Unsupported, tree, "LIMIT in a subquery that looks at the outer query", "use ROW_NUMBER"
            )
        added: list[Item] = []
        order = []
        for entry, at in sorts:
            if isinstance(at, int):
                name = own[at].name
            else:
                if tree.args.get("distinct"):
                    raise self.fail(
                        Unsupported, entry, "DISTINCT is ordered by something that it does not select",
                        "select it too",
                    )  # fmt: skip
                _, item = self._item("order", at)
                added.append(item)
                name = item.name
            descending = bool(entry.args.get("desc"))
            first = entry.args.get("nulls_first")
            order.append(Order(name, descending, not descending if first is None else bool(first)))
        wide = Project(project.input, project.items + tuple(added)) if added else project
        made = Limit(wide, tuple(order), limit, offset or 0)
        return Project(made, tuple(Item(i.column, column(i.name)) for i in own))

    def _count(self, tree: exp.Select, key: str) -> int | None:
        clause = tree.args.get(key)
        if clause is None:
            return None
        number = clause.expression
        if isinstance(clause, exp.Limit) and number.name.isdigit() and isinstance(number, exp.Literal):
            return int(number.name)
        if isinstance(clause, exp.Offset) and isinstance(number, exp.Literal) and number.name.isdigit():
            return int(number.name)
        raise self.fail(Unsupported, tree, f"{key.upper()} needs a whole number", "write it as a literal")

    # --- set operations ---

    def _set_operation(self, tree: exp.SetOperation, ctes: Ctes) -> Relation:
        ctes = self._ctes(tree, ctes)
        for key in ("by_name", "side", "kind", "on"):
            if tree.args.get(key):
                raise self.fail(
                    Unsupported, tree, f"{tree.key.upper()} BY NAME is not supported", "list the columns"
                )
        sides = [self.query(side, ctes) for side in (tree.this, tree.expression)]
        relation = self._lined_up(tree, sides)
        distinct = tree.args.get("distinct", True)
        if isinstance(tree, exp.Union):
            made = relation if not distinct else self._once(relation)
        else:
            made = self._counted(tree, sides, relation, bool(distinct))
        if tree.args.get("limit") or tree.args.get("offset"):
            whole = exp.Select(expressions=[exp.Star()])
            for key in ("order", "limit", "offset"):
                whole.set(key, tree.args.get(key))
            return self._over(whole, made)
        return made

    def _over(self, tree: exp.Select, relation: Relation) -> Relation:
        """A SELECT * with ORDER BY and LIMIT over a relation that is bound already."""
        assert isinstance(relation.node, Project)
        own = list(relation.node.items)[: len(relation.fields)]
        by_name = {f.name.lower(): n for n, f in enumerate(relation.fields)}
        sorts: list[tuple[Expr, int | Typed]] = []
        for entry in self._orders(tree):
            wanted = entry.this
            if isinstance(wanted, exp.Literal) and wanted.name.isdigit():
                sorts.append((entry, int(wanted.name) - 1))
            elif isinstance(wanted, exp.Column) and wanted.name.lower() in by_name:
                sorts.append((entry, by_name[wanted.name.lower()]))
            else:
                raise self.fail(
                    Unsupported, entry, "a set operation is ordered by its own columns", "name one of them"
                )
        return Relation(self._limited(tree, relation.node, sorts, own, []), relation.fields)

    def _lined_up(self, tree: exp.SetOperation, sides: list[Relation]) -> Relation:
        """Both sides under one another, each column in the type that holds both."""
        left, right = (side.fields for side in sides)
        if len(left) != len(right):
            raise self.fail(
                TypeMismatch, tree, f"{len(left)} columns over {len(right)}", "select as many on both sides"
            )
        columns, casts = [], []
        for a, b in zip(left, right, strict=True):
            kind = t.widest(a.column.type, b.column.type)
            if kind is None:
                raise self.fail(
                    TypeMismatch, tree, f"{a.name} is {a.column.type} above and {b.column.type} below",
                    "use CAST to bring both to one type",
                )  # fmt: skip
            nullable = a.column.nullable or b.column.nullable
            columns.append(Column(self._fresh(a.name), kind, nullable))
            casts.append(kind)
        parts = [self._cast(side, casts) for side in sides]
        node = UnionAll(tuple(parts), tuple(columns))
        items = [Item(Column(self._fresh(c.name), c.type, c.nullable), column(c.name)) for c in columns]
        fields = (Field("", f.name, i.column) for f, i in zip(left, items, strict=True))
        return Relation(Project(node, tuple(items)), tuple(fields))

    def _cast(self, side: Relation, kinds: list[t.Type], more: tuple[Item, ...] = ()) -> Project:
        items = []
        for f, kind in zip(side.fields, kinds, strict=True):
            made = Column(self._fresh(f.name), kind, f.column.nullable)
            value: Expr = column(f.column.name)
            items.append(Item(made, value if kind == f.column.type else exp.Cast(this=value, to=kind.sql())))
        return Project(side.node, (*items, *more))

    def _once(self, relation: Relation) -> Relation:
        made = self._without_duplicates(relation.node, len(relation.fields))
        return Relation(made, relation.fields)

    def _counted(
        self, tree: exp.SetOperation, sides: list[Relation], whole: Relation, distinct: bool
    ) -> Relation:
        """INTERSECT and EXCEPT: how often a row stands on each side decides. ALL counts duplicates, so each
        gets a number first, and the first of one side meets the first of the other."""
        kinds = [f.column.type for f in whole.fields]
        parts: list[Node] = []
        for number, side in enumerate(sides):
            flags = tuple(
                Item(Column(self._fresh(f"in_{n}"), t.INT, nullable=False),
                     exp.Literal.number(1 if n == number else 0))
                for n in (0, 1)
            )  # fmt: skip
            part: Node = self._cast(side, kinds)
            if not distinct:
                part = self._numbered(part)
            kept = tuple(Item(c, column(c.name)) for c in part.columns)
            parts.append(Project(part, kept + flags))
        fields = tuple(
            Column(self._fresh(f.name), kind, any(p.columns[n].nullable for p in parts))
            for n, (f, kind) in enumerate(zip(whole.fields, kinds, strict=True))
        )
        extra = () if distinct else (Column(self._fresh("number"), t.INT, nullable=False),)
        flagged = tuple(Column(self._fresh(f"in_{n}"), t.INT, nullable=False) for n in (0, 1))
        union = UnionAll(tuple(parts), (*fields, *extra, *flagged))
        rows = Measure(Column(self._fresh("n"), t.BIGINT, nullable=False), "rows")
        sums = [
            Measure(Column(self._fresh(c.name), t.BIGINT, nullable=False), "sum", c.name) for c in flagged
        ]
        grouped = Aggregate(union, tuple(c.name for c in (*fields, *extra)), (rows, *sums))
        zero = exp.Literal.number(0)
        left = exp.GT(this=column(sums[0].name), expression=zero)
        there = exp.GT if isinstance(tree, exp.Intersect) else exp.EQ
        kept_rows = Select(grouped, exp.And(
            this=left, expression=there(this=column(sums[1].name), expression=zero.copy())
        ))  # fmt: skip
        items = [Item(Column(self._fresh(c.name), c.type, c.nullable), column(c.name)) for c in fields]
        named = (Field("", f.name, i.column) for f, i in zip(whole.fields, items, strict=True))
        return Relation(Project(kept_rows, tuple(items)), tuple(named))

    def _numbered(self, part: Node) -> Window:
        number = Item(Column(self._fresh("number"), t.INT, nullable=False), exp.RowNumber())
        order = (Order(part.names[0]),)
        return Window(part, part.names, order, (number,), None, ties=True)

    def _refuse_later(self, tree: exp.Select) -> None:
        for key, (what, instead) in _LATER.items():
            part = tree.args.get(key)
            if part:
                node = part[0] if isinstance(part, list) else part
                problem = self.fail(Unsupported, node, f"{what} is not supported yet", instead)
                problem.place = self._keyword(what.split()[0], problem.place)
                raise problem
        for key, part in tree.args.items():
            if part and key not in _KNOWN:
                node = part[0] if isinstance(part, list) else part
                place = node if isinstance(node, exp.Expr) else tree
                raise self.fail(
                    Unsupported, place, f"{key.strip('_').upper()} is not supported", "leave it out"
                )

    def _ctes(self, tree: Expr, outer: Ctes) -> Ctes:
        ctes = dict(outer)
        clause = tree.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise self.fail(
                Unsupported, clause, "recursive queries are not supported", "unroll the recursion"
            )
        for cte in clause.expressions:
            # bound anew at each use, so that every use has its own columns
            visible = dict(ctes)

            def use(cte: exp.CTE = cte, visible: dict[str, Callable[[], Relation]] = visible) -> Relation:
                return self._renamed(self.query(cte.this, visible), cte)

            ctes[cte.alias.lower()] = use
        return ctes

    def _renamed(self, relation: Relation, aliased: Expr) -> Relation:
        """The relation with the column names of `AS name (a, b, ...)`, where there are any."""
        alias = aliased.args.get("alias")
        names = [c.name for c in alias.args.get("columns") or []] if alias else []
        if not names:
            return relation
        if len(names) != len(relation.fields):
            raise self.fail(
                TypeMismatch, aliased,
                f"{len(names)} column names for {len(relation.fields)} columns", "name every column",
            )  # fmt: skip
        fields = (replace(f, name=n) for f, n in zip(relation.fields, names, strict=True))
        return Relation(relation.node, tuple(fields))

    # --- FROM ---

    def _from(self, tree: exp.Select, ctes: Ctes) -> Relation:
        if tree.args.get("from_") is None:  # SELECT 1: one row of nothing
            return Relation(Constant(Column(self._fresh("row"), t.INT, nullable=False), (0,)), ())
        relation = self._relation(tree.args["from_"].this, ctes)
        for join in tree.args.get("joins") or []:
            relation = self._join(relation, join, ctes)
        return relation

    def _relation(self, tree: Expr, ctes: Ctes) -> Relation:
        if isinstance(tree, exp.Subquery):
            return self._derived(tree, ctes)
        if isinstance(tree, exp.Paren):
            return self._relation(tree.this, ctes)
        if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
            raise self.fail(
                Unsupported, tree, f"{tree.sql('spark')} cannot stand in FROM",
                "use a table, a derived table or a CTE",
            )  # fmt: skip
        for key in ("pivots", "sample", "version", "laterals", "hints", "joins"):
            if tree.args.get(key) and key != "joins":
                raise self.fail(
                    Unsupported, tree, f"{key.upper()} on a table is not supported in a view",
                    "name the plain table",
                )  # fmt: skip
        name = ".".join(part.name for part in tree.parts)
        cte = ctes.get(name.lower())
        relation = self._qualified(cte(), tree.alias or name) if cte else self._scan(tree, name)
        if tree.args.get("alias") and tree.args["alias"].args.get("columns"):
            relation = self._renamed(relation, tree)
        for join in tree.args.get("joins") or []:
            relation = self._join(relation, join, ctes)
        return relation

    def _derived(self, tree: exp.Subquery, ctes: Ctes) -> Relation:
        inner = tree.this
        if isinstance(inner, exp.Table):  # FROM (a JOIN b ON ...)
            relation = self._relation(inner, ctes)
            return self._qualified(relation, tree.alias) if tree.alias else relation
        relation = self._renamed(self.query(inner, ctes), tree)
        return self._qualified(relation, tree.alias)

    def _qualified(self, relation: Relation, qualifier: str) -> Relation:
        fields = (replace(f, qualifier=qualifier) for f in relation.starred())
        return Relation(relation.node, tuple(fields))

    def _scan(self, tree: exp.Table, name: str) -> Relation:
        try:
            table = self._find_table(name)
        except ViewkeepError as problem:
            problem.place = problem.place or place_of(tree, self._text, self._start)
            raise
        if table is None:
            raise self.fail(
                UnknownTable, tree, f"there is no table {name}",
                "create it first, or check the spelling and the database",
            )  # fmt: skip
        if not table.columns:
            raise self.fail(
                Unsupported, tree, f"table {name} has no column of a type that viewkeep has",
                "add a column to it, or read another table",
            )  # fmt: skip
        alias = tree.alias or tree.name
        fields = []
        for c in table.columns:
            nullable = c.nullable and c.name not in table.key
            fields.append((Column(self._fresh(f"{alias}_{c.name}"), c.type, nullable), c.name))
        by_base = {base: c.name for c, base in fields}
        if table.key:
            scan = Scan(table.name, alias, tuple(fields), tuple(by_base[k] for k in table.key))
        else:
            scan = bag_scan(table.name, alias, tuple(fields), self._fresh)
        self.refused[alias.lower()] = table.refused
        return Relation(scan, tuple(Field(alias, base, c) for c, base in fields))

    def _join(self, left: Relation, join: exp.Join, ctes: Ctes) -> Relation:
        side, kind, method = join.side.upper(), join.kind.upper(), (join.method or "").upper()
        if isinstance(join.this, exp.Lateral):
            return self._lateral(left, join, ctes)
        halves = kind in ("SEMI", "ANTI")
        if kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or method not in ("", "NATURAL"):
            words = " ".join(w for w in (method, side, kind) if w)
            raise self.fail(Unsupported, join, f"{words} JOIN is not supported", "use another join")
        right = self._relation(join.this, ctes)
        taken = {f.qualifier.lower() for f in left.fields}
        twice = next((f for f in right.fields if f.qualifier.lower() in taken), None)
        if twice is not None and twice.qualifier:
            raise self.fail(
                AmbiguousColumn, join.this, f"{twice.qualifier} stands twice in FROM",
                "give each an alias: FROM t AS a JOIN t AS b",
            )  # fmt: skip
        if halves:
            return self._half(left, right, join, kind)
        condition, fields, first = self._condition(left, right, join, method)
        made = Relation(
            self._joined(left.node, right.node, condition, side), self._padded(fields, side, left), first
        )
        shares = method == "NATURAL" or join.args.get("using")
        return self._shared(made, condition, side) if shares and side in ("RIGHT", "FULL") else made

    def _shared(self, joined: Relation, condition: Expr | None, side: str) -> Relation:
        """What USING shares is the right's in a right join, and in a full join whichever is there."""
        pairs = [(term.this.name, term.expression.name) for term in conjuncts(condition)]
        by_name = {f.column.name: f for f in joined.fields}
        items = [Item(c, column(c.name)) for c in joined.node.columns]
        fields = {f.column.name: f for f in joined.fields}
        shown = []
        for a, b in pairs:
            made = Column(self._fresh(by_name[a].name), by_name[a].column.type, side == "FULL")
            values = [column(a), column(b)] if side == "FULL" else [column(b)]
            value = exp.Coalesce(this=values[0], expressions=values[1:]) if len(values) > 1 else values[0]
            items.append(Item(made, value))
            fields[a], fields[b] = replace(fields[a], merged=True), replace(fields[b], merged=True)
            shown.append(Field("", by_name[a].name, made))
        first = tuple(f.column.name for f in shown) + tuple(n for n in joined.first if n not in dict(pairs))
        return Relation(Project(joined.node, tuple(items)), (*shown, *fields.values()), first)

    def _condition(
        self, left: Relation, right: Relation, join: exp.Join, method: str
    ) -> tuple[Expr | None, list[Field], tuple[str, ...]]:
        """What joins two relations, what they offer together, and what * shows first."""
        first = left.first + right.first
        both = Relation(Join(left.node, right.node, None), left.fields + right.fields, first)
        if method == "NATURAL":
            names = [f.name for f in left.fields if not f.merged]
            shared = {f.name.lower() for f in right.fields if not f.merged}
            return self._using(both, left, right, [n for n in names if n.lower() in shared], join)
        if using := join.args.get("using"):
            return self._using(both, left, right, [i.name for i in using], join)
        condition = None
        if on := join.args.get("on"):
            scope = self._scope(both)
            self._no_aggregate(on, "ON")
            if has_subquery(on):
                raise self.fail(Unsupported, on, "a subquery in ON is not supported", "put it into WHERE")
            condition = scope.typing.condition(scope.resolve(on), "ON")
        return condition, list(both.fields), first

    def _joined(self, left: Node, right: Node, condition: Expr | None, side: str) -> Node:
        if side == "LEFT":
            return OuterJoin(left, right, condition)
        if side == "RIGHT":
            return OuterJoin(right, left, condition)
        if side == "FULL":
            return OuterJoin(left, right, condition, full=True)
        return Join(left, right, condition)

    def _half(self, left: Relation, right: Relation, join: exp.Join, kind: str) -> Relation:
        """SEMI and ANTI JOIN: the left rows that have a partner, or have none."""
        condition, _, _ = self._condition(left, right, join, (join.method or "").upper())
        mark = Column(self._fresh("exists"), t.BOOLEAN, nullable=False)
        node = MarkJoin(left.node, right.node, condition, mark)
        found: Expr = column(mark.name)
        kept = Select(node, exp.Not(this=found) if kind == "ANTI" else found)
        return Relation(kept, left.fields, left.first)

    def _lateral(self, left: Relation, join: exp.Join, ctes: Ctes) -> Relation:
        """LATERAL (SELECT ... WHERE it looks at the left): a join on what looks outside. Without FROM, a
        projection of the left's own columns."""
        lateral = join.this
        query = lateral.this.this if isinstance(lateral.this, exp.Subquery) else lateral.this
        side = join.side.upper()
        if lateral.args.get("view") or not isinstance(query, exp.Select) or join.args.get("using"):
            raise self.fail(
                Unsupported, join, "this form of LATERAL is not supported", "LATERAL (SELECT ...) AS t"
            )
        scope = self._scope(left)
        on = join.args.get("on")
        if query.args.get("from_") is None and side == "" and not query.args.get("where"):
            items = [Item(c, column(c.name)) for c in left.node.columns]
            fields = []
            for e, name in self._select_list(query, left):
                self._no_aggregate(e, "LATERAL")
                _, item = self._item(name, scope.typing.type(scope.resolve(e)))
                items.append(item)
                fields.append(Field(lateral.alias, name, item.column))
            made = Relation(Project(left.node, tuple(items)), (*left.fields, *fields), left.first)
        else:
            inner = self._bound(query, ctes, scope)
            if inner.one_row or side not in ("", "LEFT"):
                raise self.fail(
                    Unsupported, join, "an aggregate in LATERAL is not supported",
                    "use a scalar subquery in the SELECT list",
                )  # fmt: skip
            fields = [replace(f, qualifier=lateral.alias) for f in inner.relation.fields]
            condition = conjunction(inner.terms)
            node = self._joined(left.node, inner.relation.node, condition, side)
            made = Relation(node, self._padded([*left.fields, *fields], side, left), left.first)
        if on is not None and not isinstance(on, exp.Boolean):
            if side:
                raise self.fail(Unsupported, join, "ON beside LATERAL is not supported", "put it into WHERE")
            inside = self._scope(made)
            made = replace(made, node=Select(made.node, inside.typing.condition(inside.resolve(on), "ON")))
        return made

    def _padded(self, fields: list[Field], side: str, left: Relation) -> tuple[Field, ...]:
        """Fields of a side that may be padded may be null."""
        lefts = {f.column.name for f in left.fields}
        padded = {"LEFT": (False, True), "RIGHT": (True, False), "FULL": (True, True)}.get(
            side, (False, False)
        )
        made = []
        for f in fields:
            pads = padded[0] if f.column.name in lefts else padded[1]
            made.append(replace(f, column=replace(f.column, nullable=True)) if pads else f)
        return tuple(made)

    def _using(
        self, both: Relation, left: Relation, right: Relation, names: list[str], join: exp.Join
    ) -> tuple[Expr | None, list[Field], tuple[str, ...]]:
        terms, firsts = [], []
        merged: set[str] = set()
        for name in dict.fromkeys(n.lower() for n in names):
            a = self._scope(left).find(None, name, join)
            b = self._scope(right).find(None, name, join)
            if t.widest(a.column.type, b.column.type) is None:
                raise self.fail(
                    TypeMismatch, join,
                    f"{name} is {a.column.type} on one side and {b.column.type} on the other",
                    "join with ON and a CAST",
                )  # fmt: skip
            terms.append(exp.EQ(this=column(a.column.name), expression=column(b.column.name)))
            merged.add(b.column.name)
            firsts.append(a.column.name)
        fields = [replace(f, merged=f.merged or f.column.name in merged) for f in both.fields]
        shared = tuple(dict.fromkeys((*firsts, *both.first)))
        return conjunction(terms), fields, shared

    # --- SELECT list ---

    def _select_list(self, tree: exp.Select, relation: Relation) -> list[tuple[Expr, str]]:
        outputs: list[tuple[Expr, str]] = []
        for entry in tree.expressions:
            star = entry.this if isinstance(entry, exp.Column) else entry
            if isinstance(star, exp.Star):
                if any(star.args.get(key) for key in ("except_", "replace", "rename")):
                    raise self.fail(
                        Unsupported, tree, "* with EXCEPT or REPLACE is not supported yet",
                        "list the columns",
                    )  # fmt: skip
                outputs += self._star(entry, relation, tree)
            elif isinstance(entry, exp.Alias):
                outputs.append((entry.this, entry.alias))
            else:
                bare = entry.unnest()
                # an expression without a name is called what Spark would call it: by its text
                name = bare.name if isinstance(bare, exp.Column) else _spark_name(entry)
                outputs.append((entry, name))
        return outputs

    def _star(self, entry: Expr, relation: Relation, tree: exp.Select) -> list[tuple[Expr, str]]:
        qualifier = entry.table if isinstance(entry, exp.Column) else ""
        fields = relation.starred()
        if qualifier:  # a column that USING merged away is still its table's, and comes first
            hidden = [f for f in relation.fields if f.merged]
            fields = [f for f in hidden + fields if f.qualifier.lower() == qualifier.lower()]
        if not fields:
            raise self.fail(UnknownTable, entry, f"nothing in FROM is called {qualifier}", "check the alias")
        for alias, columns in self.refused.items():
            if columns and (not qualifier or qualifier.lower() == alias):
                name, type_name = next(iter(columns.items()))
                raise self.fail(
                    Unsupported, tree, f"* brings in {alias}.{name} of type {type_name}",
                    "list the columns that the view needs",
                )  # fmt: skip
        return [(bound(f.column.name), f.name) for f in fields]

    def _item(self, name: str, typed: Typed) -> tuple[str, Item]:
        kind = t.STRING if typed.type == t.NULL else typed.type
        expression = typed.expression
        if typed.type == t.NULL:
            expression = exp.Cast(this=expression, to=kind.sql())
        made = Column(self._fresh(name), kind, typed.nullable)
        return name, Item(made, expression)

    def _no_duplicates(self, tree: exp.Select, items: list[tuple[str, Item]]) -> None:
        seen: set[str] = set()
        for name, _ in items:
            if name.lower() in seen:
                raise self.fail(
                    AmbiguousColumn, tree, f"two columns are called {name}", "give one an alias: AS"
                )
            seen.add(name.lower())

    # --- aggregates ---

    def _no_aggregate(self, tree: Expr, clause: str) -> None:
        for node in aggregates_in(tree):
            raise self.fail(
                Unsupported, node, f"{node.sql('spark')} cannot stand in {clause}",
                "aggregate in a derived table, or use HAVING",
            )  # fmt: skip

    def _grouped(
        self, tree: exp.Select, node: Node, scope: Scope, ctes: Ctes, outputs: list[tuple[Expr, str]],
        outside: list[Expr],
    ) -> tuple[_Stage, list[Expr]]:  # fmt: skip
        """GROUP BY and aggregates: a projection that computes keys and arguments, the Aggregate, and HAVING.
        Conditions that look at the outer query become keys: one group for each value they ask for."""
        group = tree.args.get("group")
        grouping = Grouping(scope, node, self.fail, self._fresh, self._item)
        entries, sets = self._group_entries(group, outputs, scope)
        if sets is None:
            for entry in entries:
                grouping.key(entry)
        else:
            grouping.sets(entries, sets)
        terms = [self._keyed(term, scope, grouping, tree) for term in outside]
        stage = _Stage(node, grouping.finish, grouping.add, grouping.rewrite, grouping.empty)
        having = tree.args.get("having")
        lifted = self._subqueries(scope, ctes, stage)
        condition = grouping.finish(lifted.condition(having.this)) if having else None
        if condition is not None and condition.type not in (t.BOOLEAN, t.NULL):
            raise self.fail(
                TypeMismatch, tree.args["having"].this, "HAVING must be true or false", "compare it"
            )

        def build() -> Node:
            made = lifted.attach(grouping.aggregate())
            return Select(made, condition.expression) if condition is not None else made

        stage.build = build
        return stage, terms

    def _keyed(self, term: Expr, scope: Scope, grouping: Grouping, tree: Expr) -> Expr:
        sides = (term.this, term.expression) if isinstance(term, exp.EQ) else ()
        for mine, other in (sides, sides[::-1]) if sides else ():
            own = [scope.is_outer(name) for name in columns_of(mine)]
            if own and not any(own) and all(scope.is_outer(name) for name in columns_of(other)):
                key = grouping.own_key(mine)
                return exp.EQ(this=column(key.name), expression=other.copy())
        raise self.fail(
            Unsupported, tree, "an aggregate that depends on the outer row by more than equality",
            "compare with = in the subquery's WHERE, or join and aggregate",
        )  # fmt: skip

    def _group_entries(
        self, group: exp.Group | None, outputs: list[tuple[Expr, str]], scope: Scope
    ) -> tuple[list[Expr], list[list[int]] | None]:
        """The grouping expressions, and for GROUPING SETS which of them each set has."""
        if group is None:
            return [], None
        if group.args.get("all"):  # GROUP BY ALL: everything that is not aggregated
            plain = [e for e, _ in outputs if not aggregates_in(e)]
            return plain, None
        if group.args.get("totals"):
            raise self.fail(Unsupported, group, "GROUP BY TOTALS is not Spark's", "use ROLLUP")
        entries, sets = grouping_sets(group)
        if sets == [[]]:  # GROUPING SETS (()) is one group, also over no rows; as one of several it is not
            return [], None
        return self._meant(entries, outputs, scope), sets

    def _meant(self, written: list[Expr], outputs: list[tuple[Expr, str]], scope: Scope) -> list[Expr]:
        entries = []
        for entry in written:
            if isinstance(entry, exp.Literal) and not entry.is_string:
                position = int(entry.name) if entry.name.isdigit() else 0
                if not 1 <= position <= len(outputs):
                    raise self.fail(
                        UnknownColumn, entry, f"there is no column {position} in the SELECT list",
                        f"count from 1 to {len(outputs)}",
                    )  # fmt: skip
                entry = outputs[position - 1][0]
            elif isinstance(entry, exp.Column) and not entry.table and not scope.has(entry.name):
                # an alias of the SELECT list, where no column has the name
                by_alias = {name.lower(): e for e, name in outputs}
                entry = by_alias.get(entry.name.lower(), entry)
            self._no_aggregate(entry, "GROUP BY")
            entries.append(entry)
        return entries


def _with_aliases(tree: Expr, by_alias: Mapping[str, Expr], scope: Scope) -> Expr:
    """QUALIFY may name what the SELECT list calls something, where FROM has no such column."""

    def swap(node: Expr) -> Expr:
        unbound = isinstance(node, exp.Column) and not node.meta.get("bound") and not node.table
        if unbound and not scope.has(node.name) and node.name.lower() in by_alias:
            return exp.Paren(this=by_alias[node.name.lower()].copy())
        return node

    return tree.copy().transform(swap)


def grouping_sets(group: exp.Group) -> tuple[list[Expr], list[list[int]] | None]:
    """GROUP BY as a list of expressions and, for ROLLUP, CUBE and GROUPING SETS, the sets of their positions.

    Several of them multiply: GROUP BY a, ROLLUP (b, c) is GROUPING SETS ((a, b, c), (a, b), (a)).
    """
    entries: list[Expr] = []
    factors: list[list[list[int]]] = []

    def at(entry: Expr) -> int:
        if entry not in entries:
            entries.append(entry)
        return entries.index(entry)

    def members(entry: Expr) -> list[int]:
        bare = entry.this if isinstance(entry, exp.Paren) else entry
        return [at(e) for e in bare.expressions] if isinstance(bare, exp.Tuple) else [at(bare)]

    def sets_of(entry: Expr) -> list[list[int]]:
        if isinstance(entry, exp.GroupingSets):
            return [s for e in entry.expressions for s in sets_of(e)]
        if isinstance(entry, (exp.Rollup, exp.Cube)):
            parts = [members(e) for e in entry.expressions]
            if isinstance(entry, exp.Rollup):
                return [list(chain(*parts[:n])) for n in range(len(parts), -1, -1)]
            chosen = product((True, False), repeat=len(parts))
            return [
                [n for part, on in zip(parts, which, strict=True) if on for n in part] for which in chosen
            ]
        return [members(entry)]

    special = (exp.GroupingSets, exp.Rollup, exp.Cube)
    plain = [e for e in group.expressions if not isinstance(e, special)]
    written = [e for e in group.expressions if isinstance(e, special)]
    for key in ("rollup", "cube", "grouping_sets"):
        for clause in group.args.get(key) or []:
            if clause.expressions:
                written.append(clause)
            else:  # GROUP BY a, b WITH ROLLUP
                written.append(type(clause)(expressions=plain))
                plain = []
    if not written:
        return plain, None
    factors = [[[at(e)]] for e in plain] + [sets_of(e) for e in written]
    return entries, [sorted(set(chain(*chosen))) for chosen in product(*factors)]


def _spark_name(entry: Expr) -> str:
    text = entry.sql("spark")
    return text.replace("COUNT(*)", "count(1)") if isinstance(entry, exp.Count) else text.lower()
