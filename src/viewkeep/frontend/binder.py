"""A SELECT over known tables -> a plan. Names become plan columns, types are checked, all else is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column, conjunction
from viewkeep.algebra.nodes import (
    Column,
    Item,
    Join,
    Node,
    Project,
    Scan,
    Select,
)
from viewkeep.catalog.models import Table
from viewkeep.errors import (
    AmbiguousColumn,
    NoKey,
    Place,
    TypeMismatch,
    UnknownColumn,
    UnknownTable,
    Unsupported,
    ViewkeepError,
)
from viewkeep.frontend.grouping import Grouping, aggregates_in
from viewkeep.frontend.scope import Field, Relation, Scope
from viewkeep.frontend.statements import place_at, place_of, tokenize
from viewkeep.frontend.typing import Typed

_LATER = {
    "distinct": ("SELECT DISTINCT", "GROUP BY all selected columns"),
    "qualify": ("QUALIFY", "filter in an outer query"),
    "windows": ("WINDOW", "aggregate with GROUP BY and join"),
    "order": ("ORDER BY", "order when you read the view"),
    "sort": ("SORT BY", "order when you read the view"),
    "cluster": ("CLUSTER BY", "leave it out"),
    "distribute": ("DISTRIBUTE BY", "leave it out"),
    "limit": ("LIMIT", "limit when you read the view"),
    "offset": ("OFFSET", "limit when you read the view"),
    "laterals": ("LATERAL VIEW", "join with a table"),
    "pivots": ("PIVOT", "write one aggregate a column"),
    "sample": ("TABLESAMPLE", "filter by a column; a sample differs each time"),
}


@dataclass(frozen=True)
class Bound:
    """A bound query: its plan, and the user's name for each of the plan's columns."""

    plan: Project
    names: tuple[str, ...]


def bind(query: Expr, find_table: Callable[[str], Table | None], text: str, start: int = 0) -> Bound:
    """The plan of a query. `text` is the whole statement and `start` where the query begins in it."""
    relation = _Binder(find_table, text, start).query(query, {})
    assert isinstance(relation.node, Project)
    return Bound(relation.node, tuple(f.name for f in relation.fields))


class _Binder:
    def __init__(self, find_table: Callable[[str], Table | None], text: str, start: int) -> None:
        self._find_table = find_table
        self._text = text
        self._start = start
        self._taken: set[str] = set()
        self.refused: dict[str, Mapping[str, str]] = {}

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

    def query(self, tree: Expr, ctes: Mapping[str, Callable[[], Relation]]) -> Relation:
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, ctes)
        if isinstance(tree, exp.SetOperation):
            raise self.fail(
                Unsupported, tree, f"{tree.key.upper()} is not supported yet",
                "make one view for each branch",
            )  # fmt: skip
        if not isinstance(tree, exp.Select):
            raise self.fail(Unsupported, tree, "a view is a SELECT", "write SELECT ... FROM ...")
        self._refuse_later(tree)
        relation = self._from(tree, self._ctes(tree, ctes))
        scope = self._scope(relation)
        node = relation.node
        if where := tree.args.get("where"):
            self._no_aggregate(where.this, "WHERE")
            node = Select(node, scope.typing.condition(scope.resolve(where.this), "WHERE"))
        outputs = self._select_list(tree, relation)
        having = tree.args.get("having")
        group = tree.args.get("group")
        searched = [e for e, _ in outputs] + ([having.this] if having else [])
        if group is not None or any(list(aggregates_in(e)) for e in searched):
            node, items = self._aggregate(tree, node, scope, outputs)
        else:
            if having is not None:
                raise self.fail(Unsupported, having, "HAVING without GROUP BY or aggregates", "use WHERE")
            typed = [(name, scope.typing.type(scope.resolve(e))) for e, name in outputs]
            items = [self._item(name, its) for name, its in typed]
        self._no_duplicates(tree, items)
        project = Project(node, tuple(item for _, item in items))
        fields = tuple(Field("", name, item.column) for name, item in items)
        return Relation(project, fields)

    def _refuse_later(self, tree: exp.Select) -> None:
        for key, (what, instead) in _LATER.items():
            part = tree.args.get(key)
            if part:
                node = part[0] if isinstance(part, list) else part
                problem = self.fail(Unsupported, node, f"{what} is not supported yet", instead)
                problem.place = self._keyword(what.split()[-1 if key == "distinct" else 0], problem.place)
                raise problem
        known = {"with_", "expressions", "from_", "joins", "where", "group", "having", *_LATER}
        for key, part in tree.args.items():
            if part and key not in known:
                node = part[0] if isinstance(part, list) else part
                place = node if isinstance(node, exp.Expr) else tree
                raise self.fail(
                    Unsupported, place, f"{key.strip('_').upper()} is not supported", "leave it out"
                )
        if tree.args.get("from_") is None:
            raise self.fail(Unsupported, tree, "a view needs a FROM clause", "select from a base table")

    def _ctes(
        self, tree: exp.Select, outer: Mapping[str, Callable[[], Relation]]
    ) -> Mapping[str, Callable[[], Relation]]:
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

    def _from(self, tree: exp.Select, ctes: Mapping[str, Callable[[], Relation]]) -> Relation:
        relation = self._relation(tree.args["from_"].this, ctes)
        for join in tree.args.get("joins") or []:
            relation = self._join(relation, join, ctes)
        return relation

    def _relation(self, tree: Expr, ctes: Mapping[str, Callable[[], Relation]]) -> Relation:
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

    def _derived(self, tree: exp.Subquery, ctes: Mapping[str, Callable[[], Relation]]) -> Relation:
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
        if not table.key:
            raise self.fail(
                NoKey, tree, f"table {name} has no key, so its rows cannot be told apart",
                f"declare one: ALTER TABLE {name} ADD PRIMARY KEY (column, ...)",
            )  # fmt: skip
        alias = tree.alias or tree.name
        fields = []
        for c in table.columns:
            nullable = c.nullable and c.name not in table.key
            fields.append((Column(self._fresh(f"{alias}_{c.name}"), c.type, nullable), c.name))
        by_base = {base: c.name for c, base in fields}
        scan = Scan(table.name, alias, tuple(fields), tuple(by_base[k] for k in table.key))
        self.refused[alias.lower()] = table.refused
        return Relation(scan, tuple(Field(alias, base, c) for c, base in fields))

    def _join(self, left: Relation, join: exp.Join, ctes: Mapping[str, Callable[[], Relation]]) -> Relation:
        side, kind, method = join.side.upper(), join.kind.upper(), (join.method or "").upper()
        if side or kind not in ("", "INNER", "CROSS") or method not in ("", "NATURAL"):
            words = " ".join(w for w in (method, side, kind) if w)
            raise self.fail(Unsupported, join, f"{words} JOIN is not supported yet", "use an inner join")
        right = self._relation(join.this, ctes)
        taken = {f.qualifier.lower() for f in left.fields}
        twice = next((f for f in right.fields if f.qualifier.lower() in taken), None)
        if twice is not None and twice.qualifier:
            raise self.fail(
                AmbiguousColumn, join.this, f"{twice.qualifier} stands twice in FROM",
                "give each an alias: FROM t AS a JOIN t AS b",
            )  # fmt: skip
        first = left.first + right.first
        both = Relation(Join(left.node, right.node, None), left.fields + right.fields, first)
        if method == "NATURAL":
            names = [f.name for f in left.fields if not f.merged]
            shared = {f.name.lower() for f in right.fields if not f.merged}
            return self._using(both, left, right, [n for n in names if n.lower() in shared], join)
        if using := join.args.get("using"):
            return self._using(both, left, right, [i.name for i in using], join)
        if on := join.args.get("on"):
            scope = self._scope(both)
            self._no_aggregate(on, "ON")
            condition = scope.typing.condition(scope.resolve(on), "ON")
            return Relation(Join(left.node, right.node, condition), both.fields, first)
        return both

    def _using(
        self, both: Relation, left: Relation, right: Relation, names: list[str], join: exp.Join
    ) -> Relation:
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
        node = Join(left.node, right.node, conjunction(terms))
        shared = tuple(dict.fromkeys((*firsts, *both.first)))
        return Relation(node, tuple(fields), shared)

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
        return [(column(f.column.name), f.name) for f in fields]

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

    def _aggregate(
        self, tree: exp.Select, node: Node, scope: Scope, outputs: list[tuple[Expr, str]]
    ) -> tuple[Node, list[tuple[str, Item]]]:
        """GROUP BY and aggregates: a projection that computes keys and arguments, the Aggregate, and the
        expressions of the SELECT list over what it keeps."""
        group = tree.args.get("group")
        grouping = Grouping(scope, node, self.fail, self._fresh, self._item)
        for entry in self._group_entries(group, outputs, scope):
            grouping.key(entry)
        having = tree.args.get("having")
        finished = [(name, grouping.finish(e)) for e, name in outputs]
        condition = grouping.finish(having.this) if having else None
        if condition is not None and condition.type != t.BOOLEAN:
            raise self.fail(
                TypeMismatch, tree.args["having"].this, "HAVING must be true or false", "compare it"
            )
        aggregate: Node = grouping.aggregate()
        if condition is not None:
            aggregate = Select(aggregate, condition.expression)
        return aggregate, [self._item(name, typed) for name, typed in finished]

    def _group_entries(
        self, group: exp.Group | None, outputs: list[tuple[Expr, str]], scope: Scope
    ) -> list[Expr]:
        if group is None:
            return []
        for key in ("grouping_sets", "cube", "rollup", "totals", "all"):
            if group.args.get(key):
                raise self.fail(
                    Unsupported, group, f"GROUP BY {key.replace('_', ' ').upper()} is not supported yet",
                    "make one view for each grouping",
                )  # fmt: skip
        entries = []
        for entry in group.expressions:
            if isinstance(entry, exp.Literal) and not entry.is_string:
                position = int(entry.name) if entry.name.isdigit() else 0
                if not 1 <= position <= len(outputs):
                    raise self.fail(
                        UnknownColumn, entry, f"there is no column {position} in the SELECT list",
                        f"count from 1 to {len(outputs)}",
                    )  # fmt: skip
                entry = outputs[position - 1][0]
            elif isinstance(entry, exp.Column) and not entry.table and not scope.has(entry.name):
                by_alias = {name.lower(): e for e, name in outputs}
                entry = by_alias.get(entry.name.lower(), entry)
            self._no_aggregate(entry, "GROUP BY")
            entries.append(entry)
        return entries


def _spark_name(entry: Expr) -> str:
    text = entry.sql("spark")
    return text.replace("COUNT(*)", "count(1)") if isinstance(entry, exp.Count) else text.lower()
