"""Functions of the table in functions.py, and the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import USERS, Expr
from viewkeep.errors import TypeMismatch, UnknownFunction, Unsupported
from viewkeep.frontend import functions, signatures
from viewkeep.frontend.expressions import arrays
from viewkeep.frontend.expressions.casts import cast, cast_to
from viewkeep.frontend.typed import Typed, made_call, said

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing


def call(typing: Typing, node: Expr, name: str, arguments: Sequence[Expr]) -> Typed:
    """A function of the table."""
    typed = [
        Typed(a, t.STRING, False) if isinstance(a, exp.Literal) and a.is_string else typing.type(a)
        for a in arguments
    ]
    forms = signatures.SIGNATURES[name]
    form = next((f for f in forms if f.takes([x.type for x in typed])), None)
    if form is None and (form := next((f for f in forms if f.parameters_for(len(typed))), None)):
        wanted = form.parameters_for(len(typed)) or ()
        typed = [
            _read_as(typing, part, its, k) for part, its, k in zip(arguments, typed, wanted, strict=True)
        ]
        form = next((f for f in forms if f.takes([x.type for x in typed])), None)
        for part, its, k in zip(arguments, typed, wanted, strict=True):
            if form is None and not signatures.fits(k, its.type):
                kind = signatures.CAST_TO.get(k, t.decimal(10, 2))
                raise typing.fail(
                    TypeMismatch, part, f"{name.upper()} needs {k.upper()} here, not {its.type}",
                    f"use CAST({said(part)} AS {kind})",
                )  # fmt: skip
    if form is None:
        counts = " or ".join(f"{len(f.parameters)}" for f in forms)
        raise typing.fail(
            Unsupported, node, f"{name.upper()} takes {counts} arguments here",
            "see docs/reference/sql.md for the forms of functions that views can have",
        )  # fmt: skip
    wanted = form.parameters_for(len(typed)) or ()
    parts = [
        cast_to(x, signatures.CAST_TO[k]) if _needs_cast(k, x) else x.expression
        for k, x in zip(wanted, typed, strict=True)
    ]
    result = form.result_of([x.type for x in typed])
    return made_call(form.name, parts, result, form.may_be_null or any(x.nullable for x in typed))


def _needs_cast(parameter: str, value: Typed) -> bool:
    if value.type == t.NULL:
        return parameter in signatures.CAST_TO
    return parameter in ("int", "bigint", "double", "date", "timestamp")


def _read_as(typing: Typing, node: Expr, typed: Typed, parameter: str) -> Typed:
    """A string literal where a date is wanted, as that date."""
    kind = signatures.CAST_TO.get(parameter)
    if not (isinstance(node, exp.Literal) and node.is_string and kind in (t.DATE, t.TIMESTAMP)):
        return typed
    typing.moment(node, kind)
    return Typed(exp.Cast(this=node.copy(), to=kind.sql()), kind, False)


def named(typing: Typing, node: exp.Anonymous) -> Typed:
    """A function that sqlglot has no class for: one with rules of its own, the user's, or none."""
    name, given = node.name.lower(), node.expressions
    if name in functions.CHANGING:
        raise typing.changing(node)
    if name == "cardinality" and len(given) == 1:
        return arrays.size(typing, given[0])
    if name == "get" and len(given) == 2:
        return arrays.get(typing, given[0], given[1], "get")
    if name in ("isnull", "isnotnull") and len(given) == 1:
        test: Expr = exp.Is(this=given[0].copy(), expression=exp.Null())
        return typing.type(test if name == "isnull" else exp.Not(this=test))
    if name in functions.CASTS and len(given) == 1:
        return cast(typing, exp.Cast(this=given[0].copy(), to=functions.CASTS[name].sql()))
    if name == "positive" and len(given) == 1:
        return typing.type(given[0])
    if name in ("date_part", "datepart") and len(given) == 2 and isinstance(given[0], exp.Literal):
        return typing.type(exp.Extract(this=exp.Var(this=given[0].name), expression=given[1].copy()))
    if name == "regexp" and len(given) == 2:
        return typing.type(exp.RegexpLike(this=given[0].copy(), expression=given[1].copy()))
    if name == "e" and not given:
        value = exp.Literal.number("2.718281828459045")
        return Typed(exp.Cast(this=value, to=t.DOUBLE.sql()), t.DOUBLE, False)
    if name == "zeroifnull" and len(given) == 1:
        return typing.type(exp.Coalesce(this=given[0].copy(), expressions=[exp.Literal.number(0)]))
    if name == "nullifzero" and len(given) == 1:
        return typing.type(exp.Nullif(this=given[0].copy(), expression=exp.Literal.number(0)))
    own = functions.user_function(name)
    if own is None:
        raise typing.fail(
            UnknownFunction, node, f"views have no function {node.name}",
            f"if it is yours, call register_function({node.name!r}, ...) on this connection first; "
            "docs/reference/sql.md lists those that there are",
        )  # fmt: skip
    if len(given) != len(own.arguments):
        raise typing.fail(
            TypeMismatch, node, f"{own.name} takes {len(own.arguments)} arguments, not {len(given)}",
            "give as many as it was registered with",
        )  # fmt: skip
    parts = []
    for part, wanted in zip(given, own.arguments, strict=True):
        its = typing.type(part)
        if t.widest(its.type, wanted) != wanted:
            typing.need(part, its, wanted)
        parts.append(cast_to(its, wanted))
    made = exp.Anonymous(this=own.name, expressions=parts)
    made.meta.update({**node.meta, USERS: True, "made": True, "typed": (own.returns, True)})
    return Typed(made, own.returns, True)
