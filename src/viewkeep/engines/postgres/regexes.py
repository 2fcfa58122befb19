"""Regular expressions in PostgreSQL's words. They come in RE2's words, see frontend/regex.py."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from viewkeep.errors import Unsupported

Expr = exp.Expr

_SPELLED = {r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[A-Za-z0-9_]", r"\W": "[^A-Za-z0-9_]", r"\z": r"\Z"}
_IN_CLASS = {r"\d": "0-9", r"\w": "A-Za-z0-9_"}
_PIECE = re.compile(r"\\x\{(?P<code>[0-9a-f]+)\}|(?P<escape>\\.)|(?P<open>\[)|(?P<close>\])|.", re.DOTALL)


def _in_words_of_postgres(pattern: str) -> exp.Literal:
    """\\d and \\w are what the collation says, so they are written out."""
    made, inside = "", False
    for at in _PIECE.finditer(pattern):
        if at["code"]:
            made += rf"\u{int(at['code'], 16):04x}"
        elif at["escape"]:
            made += (_IN_CLASS if inside else _SPELLED).get(at[0], at[0])
        else:
            # a second [ in a class is escaped
            inside = (inside or bool(at["open"])) and not at["close"]
            made += at[0]
    return exp.Literal.string(made)


def rlike(arguments: Sequence[Expr]) -> Expr:
    """Whether it is found anywhere."""
    pattern = _in_words_of_postgres(arguments[2].name)
    return exp.RegexpLike(this=arguments[0].copy(), expression=pattern)


def _one_way(arguments: Sequence[Expr]) -> exp.Literal:
    """A pattern of which the longest match is the first, too: PostgreSQL looks for the longest."""
    if not arguments[3].this:
        raise Unsupported(
            "a regular expression with | or with a repeated group finds other matches on PostgreSQL",
            hint="use classes [...] and repeats of single characters, or several calls",
        )
    return _in_words_of_postgres(arguments[2].name)


def _called(name: str, *arguments: Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


def replaced(arguments: Sequence[Expr]) -> Expr:
    """All matches; $1 is \\1 here, and $0 is \\&."""
    by = arguments[4].name.replace("$0", r"\&").replace("$", "\\")
    pattern = _one_way(arguments)
    return _called("regexp_replace", arguments[0], pattern, exp.Literal.string(by), exp.Literal.string("g"))


def extracted(arguments: Sequence[Expr]) -> Expr:
    """The first match, or a group of it; the empty string where there is none."""
    pattern, group = _one_way(arguments), int(arguments[4].sql())
    if group == 0:  # else only groups would be in the array
        found = _called("regexp_substr", arguments[0], pattern)
    else:
        one, first = exp.Literal.number(1), exp.Literal.number(group)
        flags = exp.Literal.string("")
        found = _called("regexp_substr", arguments[0], pattern, one, one, flags, first)
    known = exp.Not(this=exp.Is(this=arguments[0].copy(), expression=exp.Null()))
    value = exp.Coalesce(this=found, expressions=[exp.Literal.string("")])
    return exp.Case(ifs=[exp.If(this=known, true=value)])


def counted(arguments: Sequence[Expr]) -> Expr:
    return _called("regexp_count", arguments[0], _one_way(arguments))


def split(arguments: Sequence[Expr]) -> Expr:
    return _called("regexp_split_to_array", arguments[0], _one_way(arguments))
