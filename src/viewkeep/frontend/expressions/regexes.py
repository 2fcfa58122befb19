"""What a regular expression finds: replaced, taken out, counted, and split by.

Here it matters which of several matches comes first, so fewer patterns will do than for RLIKE: regex.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.errors import Unsupported
from viewkeep.frontend.expressions.numbers import whole_number
from viewkeep.frontend.regex import Finding, finding
from viewkeep.frontend.typed import Rules, Typed, made_call

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing


def _given(typing: Typing, node: Expr, empty: bool) -> tuple[Typed, Finding, list[Expr]]:
    """The string, what the pattern finds, and the arguments so far: the string, Spark's pattern, RE2's, and
    whether a longest match is the first one too. `empty`: it may find the empty string."""
    value, pattern = typing.type(node.this), node.expression
    typing.need(node.this, value, t.STRING)
    found = finding(pattern.name) if isinstance(pattern, exp.Literal) and pattern.is_string else None
    if found is None:
        raise typing.fail(
            Unsupported, node, "this regular expression might find different things on different engines",
            "use a literal pattern of letters, digits, . | * + ? {n,m} ( ) [...], \\\\d \\\\w \\\\s, "
            "with ^ at its beginning alone, and no $",
        )  # fmt: skip
    if not empty and not found.shortest:
        raise typing.fail(
            Unsupported, node, "this regular expression may find the empty string, where engines differ",
            "use + for *, or leave out what is optional",
        )  # fmt: skip
    one_way = exp.true() if found.one_way else exp.false()
    return value, found, [value.expression, pattern.copy(), exp.Literal.string(found.pattern), one_way]


def _replaced(typing: Typing, node: exp.RegexpReplace) -> Typed:
    value, found, arguments = _given(typing, node, empty=False)
    by = node.args.get("replacement") or exp.Literal.string("")
    text = by.name if isinstance(by, exp.Literal) and by.is_string else "\\"
    groups = re.findall(r"\$(\d?)(?!\d)", text)
    if "\\" in text or len(groups) != text.count("$") or any(int(n or 99) > found.groups for n in groups):
        raise typing.fail(
            Unsupported, node, "REGEXP_REPLACE needs a literal replacement, with $1 for what group 1 matched",
            "write it as a string without \\",
        )  # fmt: skip
    return made_call("regexp_replace", [*arguments, by.copy()], t.STRING, value.nullable)


def _extracted(typing: Typing, node: exp.RegexpExtract) -> Typed:
    value, found, arguments = _given(typing, node, empty=True)
    group = node.args.get("group")
    number = whole_number(group) if group is not None else 1
    if number is None or not 0 <= number <= found.groups:
        raise typing.fail(
            Unsupported, node, f"the pattern has {found.groups} groups, and REGEXP_EXTRACT asks for another",
            "put what is wanted in brackets, or ask for 0, which is the whole match",
        )  # fmt: skip
    return made_call("regexp_extract", [*arguments, exp.Literal.number(number)], t.STRING, value.nullable)


def _counted(typing: Typing, node: exp.RegexpCount) -> Typed:
    value, _, arguments = _given(typing, node, empty=False)
    return made_call("regexp_count", arguments, t.INT, value.nullable)


def _split(typing: Typing, node: exp.RegexpSplit) -> Typed:
    value, _, arguments = _given(typing, node, empty=False)
    return made_call("split", arguments, t.array(t.STRING), value.nullable)


RULES: Rules = {
    exp.RegexpReplace: _replaced,
    exp.RegexpExtract: _extracted,
    exp.RegexpCount: _counted,
    exp.RegexpSplit: _split,
}
