"""A DataFrame's analyzed plan as SQL, for the operators and expressions that are listed here.

SELECT blocks are filled from below: a relation gives FROM, joins extend it, a filter gives WHERE, then a
projection or an aggregate gives the SELECT list and closes the block; what comes on top of a closed block
reads it as a derived table. Columns keep their names wherever those are unique, so that Spark makes the same
plan of the text again: `same_query` checks that it does, and nothing that fails it is used.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from viewkeep.errors import Unsupported

INSTEAD = 'return spark.sql("SELECT ...") instead: the SQL of a view is read as it is'
_EPOCH = datetime.date(1970, 1, 1)

_BINARY: dict[str, type[exp.Binary]] = {
    "Add": exp.Add, "Subtract": exp.Sub, "Multiply": exp.Mul, "Divide": exp.Div, "Remainder": exp.Mod,
    "EqualTo": exp.EQ, "EqualNullSafe": exp.NullSafeEQ, "LessThan": exp.LT, "LessThanOrEqual": exp.LTE,
    "GreaterThan": exp.GT, "GreaterThanOrEqual": exp.GTE, "And": exp.And, "Or": exp.Or, "Like": exp.Like,
}  # fmt: skip
_FUNCTIONS = {
    "Abs": "abs", "Coalesce": "coalesce", "Concat": "concat", "DateAdd": "date_add", "DateDiff": "datediff",
    "DateSub": "date_sub", "DayOfMonth": "day", "Greatest": "greatest", "Least": "least", "Length": "length",
    "Lower": "lower", "Month": "month", "Quarter": "quarter", "Round": "round", "StringTrim": "trim",
    "Substring": "substring", "TruncDate": "trunc", "UnaryMinus": "negative", "Upper": "upper",
    "Year": "year",
}  # fmt: skip
_AGGREGATES: dict[str, type[exp.AggFunc]] = {
    "Sum": exp.Sum, "Count": exp.Count, "Average": exp.Avg, "Min": exp.Min, "Max": exp.Max,
}  # fmt: skip
_JOINS = {
    "Inner": {}, "Cross": {"kind": "CROSS"}, "LeftOuter": {"side": "LEFT"}, "RightOuter": {"side": "RIGHT"},
    "FullOuter": {"side": "FULL"}, "LeftSemi": {"side": "LEFT", "kind": "SEMI"},
    "LeftAnti": {"side": "LEFT", "kind": "ANTI"},
}  # fmt: skip
_INTEGERS = ("TINYINT", "SMALLINT", "BIGINT")


def query_of(frame: Any, stored: Mapping[str, str]) -> exp.Query:
    """The query of a DataFrame. `stored`: the names of the views behind temporary views of the session."""
    if not hasattr(frame, "_jdf"):
        raise Unsupported("the plan of a DataFrame cannot be read in a Spark Connect session", hint=INSTEAD)
    plan = frame._jdf.queryExecution().analyzed()
    return _Reader(stored, _used(plan)).query(plan)


def same_query(frame: Any, made: Any) -> bool:
    """Whether Spark's optimizer makes the same of both, and the columns have the same names and types."""
    ours, theirs = frame._jdf.queryExecution(), made._jdf.queryExecution()
    columns = [[(f.name, f.dataType) for f in x.schema.fields] for x in (frame, made)]
    return columns[0] == columns[1] and bool(ours.optimizedPlan().sameResult(theirs.optimizedPlan()))


@dataclass
class _Block:
    """A SELECT that is being filled. `columns`: for each attribute that can be named in it, how."""

    select: exp.Select
    columns: dict[int, exp.Column]
    names: dict[int, str] | None = None
    """The SELECT list once there is one: attributes and the names they have outside."""
    ordered: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it has neither a SELECT list yet nor what is written behind one."""
        return self.names is None and not self.ordered

    @property
    def is_source(self) -> bool:
        """Whether it is FROM with joins, and nothing else."""
        return self.is_open and not self.select.args.get("where")


class _Reader:
    """Reads one plan. `used`: the attributes that something in the plan names."""

    def __init__(self, stored: Mapping[str, str], used: set[int]) -> None:
        self._stored = stored
        self._used = used
        self._aliases = 0

    def query(self, plan: Any) -> exp.Query:
        """The query of a whole plan, its columns named as the DataFrame's are."""
        names = [a.name().lower() for a in _each(plan.output())]
        if len(set(names)) < len(names):
            raise Unsupported("two columns of the DataFrame have the same name", hint="rename one of them")
        return self._finished(self._block(plan), list(_each(plan.output())))

    # --- operators ---

    def _block(self, plan: Any) -> _Block:
        kind = plan.getClass().getSimpleName()
        if kind in ("SubqueryAlias", "ResolvedHint"):
            return self._block(plan.child())
        reader = _OPERATORS.get(kind)
        if reader is None:
            raise Unsupported(f"viewkeep does not read {kind} in a DataFrame", hint=INSTEAD)
        return reader(self, plan)

    def _open(self, plan: Any) -> _Block:
        """The block of a plan, for more to be written into it."""
        block = self._block(plan)
        return block if block.is_open else self._derived(block, plan)

    def relation(self, plan: Any) -> _Block:
        table = plan.catalogTable()
        if not table.isDefined():
            raise Unsupported(
                "it reads files by their path", hint="create a table over them and read it by its name"
            )
        if table.get().provider().getOrElse(None) != "delta":
            raise Unsupported("it reads a table that is no Delta table", hint="CONVERT TO DELTA, or copy it")
        index = plan.relation().location()
        if index.getClass().getSimpleName() != "TahoeLogFileIndex" or index.isTimeTravelQuery():
            raise Unsupported(
                "it reads a table otherwise than as it is", hint="leave out versionAsOf and other options"
            )
        return self._table(table.get().identifier(), plan)

    def view(self, plan: Any) -> _Block:
        identifier = plan.desc().identifier()
        if not plan.isTempView():
            return self._table(identifier, plan)
        name = self._stored.get(identifier.table().lower())
        if name is None:
            raise Unsupported(
                f"it reads the temporary view {identifier.table()}, which is none of the pipeline's",
                hint="define it with @dp.temporary_view",
            )
        return self._reading(named(name), {_id(a): a.name() for a in _each(plan.output())})

    def _table(self, identifier: Any, plan: Any) -> _Block:
        parts = [str(part) for part in _each(identifier.nameParts())]
        name = ".".join(parts[1:] if len(parts) == 3 and parts[0] == "spark_catalog" else parts)
        return self._reading(named(name), {_id(a): a.name() for a in _each(plan.output())})

    def project(self, plan: Any) -> _Block:
        return self._listed(self._open(plan.child()), plan.projectList())

    def filter(self, plan: Any) -> _Block:
        block = self._open(plan.child())
        block.select = block.select.where(self._expression(plan.condition(), block), copy=False)
        return block

    def join(self, plan: Any) -> _Block:
        kind = plan.joinType().toString()
        if kind not in _JOINS:
            raise Unsupported(f"viewkeep does not read a join of kind {kind}", hint=INSTEAD)
        left = self._block(plan.left())
        left = left if left.is_source else self._derived(left, plan.left())
        right = self._block(plan.right())
        if not right.is_source or right.select.args.get("joins"):
            right = self._derived(right, plan.right())
        both = _Block(left.select, {**left.columns, **right.columns})
        condition = plan.condition()
        given: dict[str, Any] = dict(_JOINS[kind])
        if condition.isDefined():
            given = {} if kind == "Cross" else given
            given["on"] = self._expression(condition.get(), both)
        elif kind in ("Inner", "Cross"):
            given = {"kind": "CROSS"}
        else:
            raise Unsupported("it has an outer join without a condition", hint="give the join a condition")
        both.select.append("joins", exp.Join(this=right.select.args["from_"].this, **given))
        if kind in ("LeftSemi", "LeftAnti"):
            both.columns = left.columns
        return both

    def aggregate(self, plan: Any) -> _Block:
        block = self._open(plan.child())
        keys = [self._expression(e, block) for e in _each(plan.groupingExpressions())]
        if any(not key.find(exp.Column) for key in keys):  # GROUP BY 1 means a column of the SELECT list
            raise Unsupported("it groups by a constant", hint="leave the constant out of groupBy")
        made = self._listed(block, plan.aggregateExpressions())
        if keys:
            made.select = made.select.group_by(*keys, copy=False)
        elif not any(item.find(exp.AggFunc) for item in made.select.expressions):
            raise Unsupported("it aggregates without an aggregate function", hint=INSTEAD)
        return made

    def distinct(self, plan: Any) -> _Block:
        block = self._listed_attributes(self._open(plan.child()), list(_each(plan.output())))
        block.select = block.select.distinct(copy=False)
        return block

    def deduplicate(self, plan: Any) -> _Block:
        if {_id(a) for a in _each(plan.keys())} != {_id(a) for a in _each(plan.output())}:
            raise Unsupported(
                "dropDuplicates by some columns keeps rows that nobody can foretell",
                hint="use groupBy with min or max, or dropDuplicates() by all columns",
            )
        block = self._listed_attributes(self._open(plan.child()), list(_each(plan.output())))
        # not DISTINCT: Spark groups by the keys in an order of its own, and the plans must be the same
        keys = [self._expression(key, block) for key in _each(plan.keys())]
        block.select = block.select.group_by(*keys, copy=False)
        return block

    def union(self, plan: Any) -> _Block:
        children = list(_each(plan.children()))
        parts = [self._finished(self._block(child), list(_each(child.output()))) for child in children]
        query = parts[0]
        for part in parts[1:]:
            query = exp.Union(this=query, expression=part, distinct=False)
        names = [a.name() for a in _each(children[0].output())]
        if len({name.lower() for name in names}) < len(names):
            raise Unsupported("two columns of a union have the same name", hint="rename one of them")
        attributes = map(_id, _each(plan.output()))
        return self._reading(exp.Subquery(this=query), dict(zip(attributes, names, strict=True)))

    def sort(self, plan: Any) -> _Block:
        block = self._open(plan.child())
        orders = [self._order(order, block) for order in _each(plan.order())]
        block.select = block.select.order_by(*orders, copy=False)
        block.ordered = True
        return block

    def _order(self, order: Any, block: _Block) -> exp.Ordered:
        first = order.nullOrdering().sql() == "NULLS FIRST"
        descending = order.direction().sql() == "DESC"
        return exp.Ordered(this=self._expression(order.child(), block), desc=descending, nulls_first=first)

    def limit(self, plan: Any) -> _Block:
        local = plan.child()
        rows = plan.limitExpr()
        if local.getClass().getSimpleName() != "LocalLimit" or not _is(rows, "Literal"):
            raise Unsupported("it has a limit that is no number", hint=INSTEAD)
        block = self._block(local.child())
        if not block.ordered or block.select.args.get("limit"):
            raise Unsupported(
                "limit without orderBy keeps rows that nobody can foretell",
                hint="orderBy() just before limit()",
            )
        block.select = block.select.limit(int(rows.value()), copy=False)
        return block

    # --- blocks ---

    def _reading(self, source: exp.Expr, names: Mapping[int, str]) -> _Block:
        """A block that reads a table or a derived table, whose attributes have names."""
        self._aliases += 1
        alias = f"q{self._aliases}"
        source.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        columns = {attribute: _column(alias, name) for attribute, name in names.items()}
        return _Block(exp.Select().from_(source, copy=False), columns)

    def _derived(self, block: _Block, plan: Any) -> _Block:
        """A block that reads a finished one as a derived table, as far as its columns are needed."""
        if block.names is None:
            attributes = list(_each(plan.output()))
            block = self._listed_attributes(
                block, [a for a in attributes if _id(a) in self._used] or attributes[:1]
            )
        assert block.names is not None
        return self._reading(exp.Subquery(this=block.select), block.names)

    def _listed_attributes(self, block: _Block, attributes: Sequence[Any]) -> _Block:
        """The block with attributes as its SELECT list; of two with one name the second gets another."""
        items: list[exp.Expr] = []
        names: dict[int, str] = {}
        for attribute in attributes:
            column = self._expression(attribute, block)
            name = attribute.name()
            if name.lower() in {n.lower() for n in names.values()}:
                name = f"{name}_{_free_number(name, names.values())}"
            items.append(column if column.name == name else exp.alias_(column, name, quoted=True))
            names[_id(attribute)] = name
        return self._with_list(block, items, names)

    def _listed(self, block: _Block, expressions: Any) -> _Block:
        """The block with named expressions as its SELECT list."""
        items: list[exp.Expr] = []
        names: dict[int, str] = {}
        for expression in _each(expressions):
            name = expression.name()
            if name.lower() in {n.lower() for n in names.values()}:
                name = f"{name}_{_free_number(name, names.values())}"
            if _id(expression) in names:
                raise Unsupported(
                    f"it selects {expression.name()} twice", hint="rename one of them with alias()"
                )
            value = expression.child() if _is(expression, "Alias") else expression
            item = self._expression(value, block)
            plain = isinstance(item, exp.Column) and item.name == name
            items.append(
                item if plain and not _is(expression, "Alias") else exp.alias_(item, name, quoted=True)
            )
            names[_id(expression)] = name
        return self._with_list(block, items, names)

    def _with_list(self, block: _Block, items: list[exp.Expr], names: dict[int, str]) -> _Block:
        return _Block(
            block.select.select(*items, append=False, copy=False), block.columns, names, block.ordered
        )

    def _finished(self, block: _Block, attributes: Sequence[Any]) -> exp.Query:
        """A query with exactly these columns, in this order, by these names."""
        wanted = {_id(a): a.name() for a in attributes}
        if block.names is None:
            block = self._listed_attributes(block, attributes)
        if list((block.names or {}).items()) != list(wanted.items()):
            block = self._reading(exp.Subquery(this=block.select), block.names or {})
            block = self._listed_attributes(block, attributes)
        return block.select

    # --- expressions ---

    def _expression(self, e: Any, block: _Block) -> exp.Expr:
        kind = e.getClass().getSimpleName()
        if kind == "AttributeReference":
            return self._attribute(e, block)
        if kind == "Literal":
            return _literal(e)
        if kind == "AggregateExpression":
            return self._aggregation(e, block)
        if kind == "Cast":
            to = exp.DataType.build(e.dataType().sql(), dialect="spark")
            return exp.Cast(this=self._expression(e.child(), block), to=to)
        given = [self._expression(child, block) for child in _each(e.children())]
        if kind in _BINARY and len(given) == 2:
            return exp.Paren(this=_BINARY[kind](this=given[0], expression=given[1]))
        if kind in _FUNCTIONS:
            return exp.Anonymous(this=_FUNCTIONS[kind], expressions=given)
        if kind in _OTHERS:
            return _OTHERS[kind](given)
        raise Unsupported(f"viewkeep does not read {e.prettyName()} in a DataFrame", hint=INSTEAD)

    def _attribute(self, e: Any, block: _Block) -> exp.Column:
        column = block.columns.get(_id(e))
        if column is None:
            raise Unsupported(f"column {e.name()} comes from outside of its query", hint=INSTEAD)
        if column.name.lower() == e.name().lower():  # as the user spells it: the view's column is named so
            return _column(column.table, e.name())
        return column.copy()

    def _aggregation(self, e: Any, block: _Block) -> exp.Expr:
        function = e.aggregateFunction()
        kind = function.getClass().getSimpleName()
        children = list(_each(function.children()))
        if kind not in _AGGREGATES or e.filter().isDefined() or len(children) != 1:
            raise Unsupported(f"viewkeep does not read {function.prettyName()} in a DataFrame", hint=INSTEAD)
        if (
            kind == "Count"
            and _is(children[0], "Literal")
            and children[0].value() == 1
            and not e.isDistinct()
        ):
            return exp.Count(this=exp.Star())
        given = self._expression(children[0], block)
        return _AGGREGATES[kind](this=exp.Distinct(expressions=[given]) if e.isDistinct() else given)


_OPERATORS: dict[str, Callable[[_Reader, Any], _Block]] = {
    "LogicalRelation": _Reader.relation, "View": _Reader.view, "Project": _Reader.project,
    "Filter": _Reader.filter, "Join": _Reader.join, "Aggregate": _Reader.aggregate,
    "Distinct": _Reader.distinct, "Deduplicate": _Reader.deduplicate, "Union": _Reader.union,
    "Sort": _Reader.sort, "GlobalLimit": _Reader.limit,
}  # fmt: skip


def _case(given: list[exp.Expr]) -> exp.Expr:
    pairs = list(zip(given[0::2], given[1::2], strict=False))
    ifs = [exp.If(this=condition, true=value) for condition, value in pairs]
    return exp.Case(ifs=ifs, default=given[-1] if len(given) % 2 else None)


_OTHERS: dict[str, Callable[[list[exp.Expr]], exp.Expr]] = {
    "CaseWhen": _case,
    "If": _case,
    "In": lambda given: exp.Paren(this=exp.In(this=given[0], expressions=given[1:])),
    "IsNull": lambda given: exp.Paren(this=exp.Is(this=given[0], expression=exp.Null())),
    "IsNotNull": lambda given: exp.Paren(this=exp.Not(this=exp.Is(this=given[0], expression=exp.Null()))),
    "Not": lambda given: exp.Paren(this=exp.Not(this=exp.Paren(this=given[0]))),
}


def _literal(e: Any) -> exp.Expr:
    kind, value = e.dataType().sql(), e.value()
    if value is None:
        return exp.Null() if kind == "VOID" else _cast(exp.Null(), kind)
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int) and kind == "INT":
        return exp.Literal.number(value)
    if isinstance(value, int) and kind in _INTEGERS:
        return _cast(exp.Literal.number(value), kind)
    if isinstance(value, int) and kind == "DATE":
        return _cast(exp.Literal.string((_EPOCH + datetime.timedelta(days=value)).isoformat()), kind)
    if isinstance(value, float) and kind == "DOUBLE" and math.isfinite(value) and "e" not in repr(value):
        return _cast(exp.Literal.number(repr(value)), kind)
    if kind.startswith("DECIMAL"):
        return _cast(exp.Literal.number(value.toString()), kind)
    if kind == "STRING":
        return exp.Literal.string(value.toString())
    raise Unsupported(f"viewkeep does not read a constant of type {kind} in a DataFrame", hint=INSTEAD)


def _cast(value: exp.Expr, kind: str) -> exp.Cast:
    return exp.Cast(this=value, to=exp.DataType.build(kind, dialect="spark"))


def named(name: str) -> exp.Table:
    """A table by its name."""
    parts = name.split(".")
    catalog, db, table = [None] * (3 - len(parts)) + [*parts]
    return exp.table_(table or "", db=db, catalog=catalog, quoted=True)


def _column(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))


def _free_number(name: str, names: Iterable[str]) -> int:
    taken = {n.lower() for n in names}
    number = 2
    while f"{name}_{number}".lower() in taken:
        number += 1
    return number


def _used(plan: Any) -> set[int]:
    """The attributes that some expression of a plan names, or that it gives back."""
    found = {_id(a) for a in _each(plan.output())}
    for child in _each(plan.children()):
        found |= _used(child)
    return found | {_id(a) for a in _each(plan.references().toSeq())} if plan.children().size() else found


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala's."""
    return (sequence.apply(n) for n in range(sequence.size()))


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _is(node: Any, kind: str) -> bool:
    return bool(node.getClass().getSimpleName() == kind)
