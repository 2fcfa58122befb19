"""The modification log on DuckDB: DML goes through viewkeep, which logs rows before and after with it.

Every statement gets a number; the rows it takes away are logged with sign -1, those it brings with +1. A
statement may log rows that it does not change: they cancel out when the log is combined.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from viewkeep.algebra.expressions import disjunction, same
from viewkeep.catalog.models import Table
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.engines.transactional.merging import expanded
from viewkeep.errors import Unsupported
from viewkeep.idiff.net import SEQ, SIGN
from viewkeep.store.places import Places, base_table

PLACES = Places()
_SOURCE = exp.table_("viewkeep:source", quoted=True)
_TAKEN = exp.table_("viewkeep:taken", quoted=True)
_BROUGHT = "viewkeep_brought"
# aliases that no column has: in a subquery b.k would be taken for a field of a column b
_BASE, _OTHER = "viewkeep_base", "viewkeep_other"
_ROW, _ACTION = ":row", "merge_action"


def create_log(con: Any, table: Table) -> None:
    """An empty log with the table's columns, if there is none yet."""
    columns = exp.select(
        exp.alias_(exp.cast(exp.Literal.number(0), "BIGINT"), SEQ, quoted=True),
        exp.alias_(exp.cast(exp.Literal.number(0), "TINYINT"), SIGN, quoted=True),
        *(_column(c.name) for c in table.columns),
    ).from_(base_table(table.name))
    create = exp.Create(this=PLACES.log(table.name), kind="TABLE", exists=True, expression=columns.limit(0))
    con.execute(to_sql(create))


def run_captured(con: Any, tree: exp.Expr, table: Table, seq: int) -> int:
    """Runs one DML statement and logs what it did; the number of rows it affected. In a transaction."""
    if isinstance(tree, exp.Insert):
        return _insert(con, tree, table, seq)
    if isinstance(tree, (exp.Update, exp.Delete)):
        alias = _alias_of(tree.this)
        if not table.key and table.column("rowid") is not None:
            return _everything(con, tree, table, seq)
        where, others = tree.args.get("where"), _others(tree)
        taken = exp.Exists(this=_same_row(table, alias))
        fixed = tree.copy()
        if others is None:
            _take(con, table, alias, where)
            # by the rows that were taken, not by WHERE again: rand() would pick others
            fixed.set("where", exp.Where(this=taken))
        else:  # SET looks at rows of other tables, which WHERE pairs with the table's
            paired = exp.select(exp.Literal.number(1)).from_(others)
            paired.set("where", where.copy() if where is not None else None)
            _take(con, table, alias, exp.Where(this=exp.Exists(this=paired)))
            fixed = fixed.where(taken)
        if isinstance(tree, exp.Update):
            return _bring_returned(con, fixed, table, seq)
        _log_taken(con, table, seq)
        return int(con.execute(to_sql(fixed)).fetchone()[0])
    assert isinstance(tree, exp.Merge)
    return _merge(con, tree, table, seq)


def run_plain(con: Any, tree: exp.Expr, table: Table) -> int:
    """Runs one DML statement on a table that no view reads; the number of rows it affected."""
    if isinstance(tree, exp.Insert) and tree.args.get("overwrite"):
        tree = _emptied(con, tree, table)
    elif isinstance(tree, exp.Merge):
        tree = _expanded(con, tree, table)
    return int(con.execute(to_sql(tree)).fetchone()[0])


def _emptied(con: Any, tree: exp.Insert, table: Table) -> exp.Insert:
    """INSERT OVERWRITE as a plain INSERT, into a table that is empty then. It may read its own rows."""
    plain = tree.copy()
    plain.set("overwrite", False)
    if plain.expression.find(exp.Table):
        rows = plain.expression
        if ctes := plain.args.pop("with_", None):
            rows.set("with_", ctes)
        con.execute(to_sql(_temporary(_SOURCE, rows)))
        plain.set("expression", exp.select("*").from_(_SOURCE.copy()))
    con.execute(to_sql(exp.Delete(this=base_table(table.name))))
    return plain


def _others(tree: exp.Expr) -> exp.Expr | None:
    """What UPDATE ... FROM and DELETE ... USING read beside the table that they change."""
    from_ = tree.args.get("from_")
    using: list[exp.Expr] = [from_.this] if from_ is not None else tree.args.get("using") or []
    if len(using) > 1:
        raise Unsupported("DELETE ... USING takes one table", hint="join them in a subquery")
    return using[0].copy() if using else None


def _insert(con: Any, tree: exp.Insert, table: Table, seq: int) -> int:
    conflict = tree.args.get("conflict")
    if tree.args.get("alternative") == "REPLACE" or (conflict is not None and conflict.expressions):
        # it changes rows that it does not name; those before it are known only from all that there were
        return _everything(con, tree, table, seq)
    if tree.args.get("overwrite"):
        _take(con, table, None, None)
        return _bring_returned(con, _emptied(con, tree, table), table, seq)
    return _bring_returned(con, tree, table, seq, taken=False)


def _bring_returned(con: Any, tree: exp.Expr, table: Table, seq: int, taken: bool = True) -> int:
    """Runs the statement with RETURNING: the rows as they became."""
    if taken:
        _log_taken(con, table, seq)
    returning = tree.copy()
    returning.set("returning", exp.Returning(expressions=[exp.Star()]))
    rows = con.arrow(to_sql(returning))
    con.register(_BROUGHT, rows)
    try:
        _append(con, table, seq, 1, exp.table_(_BROUGHT))
    finally:
        con.unregister(_BROUGHT)
    return int(rows.num_rows)


def _merge(con: Any, tree: exp.Merge, table: Table, seq: int) -> int:
    """MERGE: rows that the source may reach are taken; all rows under their keys or new keys are brought.

    Without a key, all rows are taken that equal one that the source may reach, and those that equal one of
    them afterwards are brought. Of other values the statement removes none, and tells what it adds.
    """
    target = tree.this
    alias = target.alias or target.name
    tree = _with_fixed_source(con, tree)
    if not table.key and table.column(_ACTION) is not None:
        return _everything(con, _expanded(con, tree, table), table, seq)
    reached = exp.Exists(
        this=exp.select(exp.Literal.number(1)).from_(tree.args["using"].copy()).where(tree.args["on"].copy())
    )
    whens = tree.args["whens"].expressions
    any_row = any(when.args.get("source") and not when.args.get("matched") for when in whens)
    # rand() would reach other rows the second time
    any_row = any_row or tree.args["on"].find(exp.Rand) is not None
    _take(con, table, alias, None if any_row else exp.Where(this=reached))
    if not table.key:
        _take(con, table, None, exp.Where(this=exp.Exists(this=_same_values(_TAKEN, table, _BASE))))
    _log_taken(con, table, seq)
    returning = _expanded(con, tree, table)
    told = [exp.Star()] if table.key else [_column(_ACTION), exp.Star()]
    returning.set("returning", exp.Returning(expressions=told))
    rows = con.arrow(to_sql(returning))
    con.register(_BROUGHT, rows)
    brought = exp.table_(_BROUGHT)
    try:
        now = _rows_of(base_table(table.name), table)
        if table.key:
            found = (exp.Exists(this=_same_key(source, table, _BASE)) for source in (_TAKEN, brought))
            now = now.where(disjunction(found))
        else:
            others = exp.Not(this=exp.Exists(this=_same_values(_TAKEN, table, _BASE)))
            added = exp.NEQ(this=_column(_ACTION, _BASE), expression=exp.Literal.string("DELETE"))
            new = _rows_of(brought, table).where(others, added)
            _append(con, table, seq, 1, exp.Subquery(this=new, alias="new"))
            now = now.where(exp.Exists(this=_same_values(_TAKEN, table, _BASE)))
        _append(con, table, seq, 1, exp.Subquery(this=now, alias="now"))
    finally:
        con.unregister(_BROUGHT)
    return int(rows.num_rows)


def _everything(con: Any, tree: exp.Expr, table: Table, seq: int) -> int:
    """Logs all rows before and after. For tables whose own columns hide what would tell: DuckDB's rowid and,
    in a MERGE, merge_action."""
    _take(con, table, None, None)
    _log_taken(con, table, seq)
    count = int(con.execute(to_sql(tree)).fetchone()[0])
    _append(con, table, seq, 1, exp.Subquery(this=_rows_of(base_table(table.name), table), alias="now"))
    return count


def _rows_of(source: exp.Expr, table: Table) -> exp.Select:
    columns = (_column(c.name, _BASE) for c in table.columns)
    return exp.select(*columns).from_(exp.alias_(source.copy(), _BASE, table=True))


def _with_fixed_source(con: Any, tree: exp.Merge) -> exp.Merge:
    """The MERGE over a copy of its source: it is read twice, and rand() would differ."""
    using = tree.args["using"]
    rows = exp.select("*").from_(using.copy())
    con.execute(to_sql(_temporary(_SOURCE, rows)))
    made = tree.copy()
    made.set("using", exp.alias_(_SOURCE.copy(), using.alias or using.name, table=True))
    return made


def _same_row(table: Table, alias: str) -> exp.Select:
    """The taken row that a row of the table is: by key, else by where it is, which a transaction can tell."""
    if table.key:
        return _same_key(_TAKEN, table, alias)
    query = exp.select(exp.Literal.number(1)).from_(exp.alias_(_TAKEN.copy(), _OTHER, table=True))
    return query.where(exp.EQ(this=_column(_ROW, _OTHER), expression=_column("rowid", alias)))


def _same_key(source: exp.Expr, table: Table, alias: str) -> exp.Select:
    query = exp.select(exp.Literal.number(1)).from_(exp.alias_(source.copy(), _OTHER, table=True))
    for name in table.key:
        query = query.where(exp.EQ(this=_column(name, _OTHER), expression=_column(name, alias)))
    return query


def _same_values(source: exp.Expr, table: Table, alias: str) -> exp.Select:
    query = exp.select(exp.Literal.number(1)).from_(exp.alias_(source.copy(), _OTHER, table=True))
    for c in table.columns:
        query = query.where(same(_column(c.name, _OTHER), _column(c.name, alias)))
    return query


def _expanded(con: Any, tree: exp.Merge, table: Table) -> exp.Merge:
    """The statement without shorthands; they mean all columns, of whatever type."""
    listed = con.execute("SELECT name FROM pragma_table_info(?)", [to_sql(base_table(table.name))]).fetchall()
    return expanded(tree, [name for (name,) in listed])


def _take(con: Any, table: Table, alias: str | None, where: exp.Where | None) -> None:
    """Sets aside the rows as they were, and without a key where they were."""
    alias = alias or _BASE
    query = exp.select(*(_column(c.name, alias) for c in table.columns)).from_(
        exp.alias_(base_table(table.name), alias, table=True)
    )
    if not table.key:
        query = query.select(exp.alias_(_column("rowid", alias), _ROW, quoted=True))
    if where is not None:
        query = query.where(where.this.copy())
    con.execute(to_sql(_temporary(_TAKEN, query)))


def _temporary(name: exp.Table, query: exp.Query) -> exp.Create:
    properties = exp.Properties(expressions=[exp.TemporaryProperty()])
    return exp.Create(this=name.copy(), kind="TABLE", replace=True, properties=properties, expression=query)


def _log_taken(con: Any, table: Table, seq: int) -> None:
    _append(con, table, seq, -1, _TAKEN.copy())


def _append(con: Any, table: Table, seq: int, sign: int, rows: exp.Expr) -> None:
    number = exp.Literal.number(1)
    names = [SEQ, SIGN, *(c.name for c in table.columns)]
    query = exp.select(
        exp.Literal.number(seq),
        number if sign > 0 else exp.Neg(this=number),
        *(_column(c.name) for c in table.columns),
    ).from_(rows)
    identifiers = [exp.to_identifier(n, quoted=True) for n in names]
    insert = exp.Insert(
        this=exp.Schema(this=PLACES.log(table.name), expressions=identifiers), expression=query
    )
    con.execute(to_sql(insert))


def _alias_of(target: exp.Expr) -> str:
    if not isinstance(target, exp.Table):
        raise Unsupported("the statement must name one table", hint="write UPDATE table SET ...")
    return target.alias or target.name


def _column(name: str, table: str | None = None) -> exp.Column:
    return exp.Column(
        this=exp.to_identifier(name, quoted=True),
        table=exp.to_identifier(table, quoted=True) if table else None,
    )
