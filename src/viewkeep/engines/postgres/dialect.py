"""viewkeep's syntax trees in PostgreSQL's words, with Spark's meaning."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from viewkeep.algebra.expressions import COMPARISONS, rewritten, unchained
from viewkeep.algebra.script_nodes import ROW
from viewkeep.engines.postgres.functions import narrowed, spell
from viewkeep.errors import Unsupported
from viewkeep.frontend.typed import QUOTIENT

# Spark compares strings by their bytes, which is what PostgreSQL calls the collation C. It takes letters for
# what Unicode says they are, which C does not.
BYTES, UNICODE = "C", "und-x-icu"
_BITWISE = (exp.BitwiseXor, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseLeftShift, exp.BitwiseRightShift)
_ZONED = (exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)


def to_sql(tree: exp.Expr, pretty: bool = False, *, says_collation: bool = True) -> str:
    """The tree as PostgreSQL's SQL. Where the database itself compares by bytes the collation is better not
    said: an index without a word about it is no index for strings of collation C."""
    made = rewritten(tree, _translate)
    if not says_collation:
        made = rewritten(made, _without_collation)
    return made.sql(dialect="postgres", pretty=pretty, copy=False)


def _without_collation(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Collate) and node.expression.name == BYTES else node


def collated(value: exp.Expr, collation: str = BYTES) -> exp.Expr:
    """A string that is compared by a collation."""
    return exp.Collate(this=value, expression=exp.to_identifier(collation, quoted=True))


def _translate(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.DataType) and node.this in _ZONED:
        return exp.DataType(this=exp.DataType.Type.TIMESTAMP)
    if isinstance(node, exp.Div):
        # of doubles: decimals are divided by QUOTIENT, and whole numbers by DIV
        top = exp.Cast(this=node.this, to=exp.DataType.build("DOUBLE"))
        return exp.Div(this=top, expression=node.expression, typed=True, safe=False)
    if isinstance(node, exp.IntDiv):
        sides = (
            exp.Cast(this=side, to=exp.DataType.build("BIGINT")) for side in (node.this, node.expression)
        )
        return exp.Div(this=next(sides), expression=next(sides), typed=True, safe=False)
    if isinstance(node, _BITWISE):
        return _bracketed(node)
    if isinstance(node, COMPARISONS):
        node = unchained(node)
    if isinstance(node, exp.NullSafeEQ) and _is_condition(node):
        return _same(node.this, node.expression)
    if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.TINYINT:
        return narrowed(node)
    if isinstance(node, (exp.Upper, exp.Lower)):
        return collated(type(node)(this=collated(node.this, UNICODE)))
    if isinstance(node, exp.Alias) and node.alias == ROW and isinstance(node.this, exp.Null):
        # rows that are nowhere yet: a relation of these alone would have a column of text
        node.set("this", exp.Cast(this=node.this, to=exp.DataType.build("tid", udt=True)))
        return node
    if isinstance(node, exp.Explode) and isinstance(node.this, exp.GenerateSeries):
        return node.this  # it makes rows by itself
    if isinstance(node, exp.Anonymous) and node.name.lower() == "range" and len(node.expressions) == 2:
        return _numbers(node)
    if isinstance(node, exp.Case):
        return _with_failures(node)
    if isinstance(node, exp.Median):
        order = exp.Order(expressions=[exp.Ordered(this=node.this)])
        half = exp.Anonymous(this="percentile_cont", expressions=[exp.Literal.number("0.5")])
        return exp.WithinGroup(this=half, expression=order)
    if isinstance(node, exp.Struct):
        return exp.Anonymous(this="ROW", expressions=[field.expression for field in node.expressions])
    if isinstance(node, exp.Cast) and node.to.this in exp.DataType.TEXT_TYPES:
        return collated(node)
    if isinstance(node, exp.Window) and isinstance(node.this, (exp.IgnoreNulls, exp.RespectNulls)):
        if isinstance(node.this, exp.IgnoreNulls):
            raise Unsupported(
                "IGNORE NULLS is not supported on PostgreSQL", hint="filter the nulls out before"
            )
        node.set("this", node.this.this)
        return node
    if isinstance(node, exp.Anonymous) and node.name.lower() == QUOTIENT:
        return _quotient(node)
    if isinstance(node, exp.Anonymous) and (spelled := spell(node)) is not None:
        return spelled
    return node


def _bracketed(node: exp.Binary) -> exp.Expr:
    """a ^ b >> 2 with its sides in brackets: these operators all bind alike here."""
    for key in ("this", "expression"):
        if isinstance(node.args[key], exp.Binary):
            node.set(key, exp.Paren(this=node.args[key]))
    return node


def _is_condition(node: exp.Expr) -> bool:
    """Whether a term is one of those that rows are kept by: there, null is as good as false."""
    above = node.parent
    while isinstance(above, (exp.And, exp.Paren)):
        above = above.parent
    return isinstance(above, (exp.Where, exp.Join))


def _same(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """a = b, or both are null; else false or null. IS NOT DISTINCT FROM cannot be looked up in an index."""
    nulls = [exp.Is(this=side.copy(), expression=exp.Null()) for side in (left, right)]
    equal = exp.EQ(this=left, expression=right)
    both = exp.Paren(this=exp.And(this=nulls[0], expression=nulls[1]))
    return exp.Paren(this=exp.Or(this=equal, expression=both))


def _numbers(node: exp.Anonymous) -> exp.Expr:
    """Spark's range(a, b), which ends before b."""
    start, end = (exp.Cast(this=e, to=exp.DataType.build("BIGINT")) for e in node.expressions)
    last = exp.Sub(this=end, expression=exp.Literal.number(1))
    return exp.GenerateSeries(start=start, end=last)


def _with_failures(node: exp.Case) -> exp.Expr:
    """CASE WHEN ... THEN raise_error(...): PostgreSQL wants the type of what never comes."""
    for branch in node.args["ifs"]:
        problem = branch.args["true"]
        if isinstance(problem, exp.Anonymous) and problem.name.lower() == "raise_error":
            instead = node.args["default"].copy()
            fail = exp.Anonymous(this="fail", expressions=[problem.expressions[0], instead])
            branch.set("true", exp.Dot(this=exp.to_identifier("viewkeep"), expression=fail))
    return node


def _quotient(node: exp.Anonymous) -> exp.Expr:
    """Exact decimal division, half up: PostgreSQL's own `/` rounds to digits of its choice first.

    n / d at scale s is the whole part of (2 |n| 10^s + |d|) / (2 |d|), signed, over 10^s.
    """
    top, bottom = (exp.Cast(this=n.copy(), to=exp.DataType.build("DECIMAL")) for n in node.expressions[:2])
    precision, scale = (int(e.name) for e in node.expressions[2:4])
    doubled = exp.Mul(this=exp.Literal.number(2 * 10**scale), expression=exp.Abs(this=top))
    above = exp.Add(this=doubled, expression=exp.Abs(this=bottom))
    below = exp.Mul(this=exp.Literal.number(2), expression=exp.Abs(this=bottom.copy()))
    whole = exp.Anonymous(this="div", expressions=[above, below])
    signs = (exp.Sign(this=side.copy()) for side in (top, bottom))
    signed = exp.Mul(this=exp.Mul(this=next(signs), expression=next(signs)), expression=whole)
    # times 0.01, not over 100: products of numerics are exact
    power = exp.Literal.number(f"{Decimal(10) ** -scale:f}")
    exact = exp.Mul(this=signed, expression=power)
    return exp.Cast(this=exact, to=exp.DataType.build(f"DECIMAL({precision},{scale})"))
