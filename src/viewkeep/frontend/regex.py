"""Regular expressions that Java's and RE2's engines read alike, after a little translation.

RLIKE only asks whether a pattern is found, so which of several matches comes first does not matter. What
is left: `.`, `$` and the classes, whose meaning differs at line ends, and syntax that one of them lacks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_ESCAPED = {
    "d": r"\d", "D": r"\D", "w": r"\w", "W": r"\W", "t": r"\t", "n": r"\n", "r": r"\r",
    "s": r"[\t\n\v\f\r ]", "S": r"[^\t\n\v\f\r ]",
}  # fmt: skip
_IN_CLASS = {"d": r"\d", "w": r"\w", "s": r"\t\n\v\f\r ", "t": r"\t", "n": r"\n", "r": r"\r"}
_PUNCTUATION = r".^$*+?()[]{}|\/-_#@!%&=:;,~<>\"' "
_LITERAL = re.compile(r"[A-Za-z0-9 _/#@!%&=:;,~<>\"'-]")
_PIECE = re.compile(
    r"(?P<escape>\\.)|(?P<class>\[\^?(?:\\.|[^\]\[\\&^])+\])|(?P<group>\((?:\?:|(?!\?))|\))"
    r"|(?P<repeat>[*+?]|\{\d{1,3}(?:,\d{0,3})?\})|(?P<mark>[.^$|])|(?P<plain>.)",
    re.DOTALL,
)


def portable(pattern: str) -> str | None:
    """RE2's words for a Java pattern, or None where the two might differ."""
    try:
        re.compile(pattern)  # brackets that do not match, repeats of nothing
    except re.error:
        return None
    made = []
    for found in _PIECE.finditer(pattern):
        piece = _translated(found.lastgroup or "", found[0])
        if piece is None:
            return None
        made.append(piece)
    text = "".join(made)
    return None if re.search(r"[*+?}][+]", text) else text  # possessive: RE2 has no such thing


def _translated(kind: str, text: str) -> str | None:
    if kind == "escape":
        letter = text[1]
        return text if letter in _PUNCTUATION else _ESCAPED.get(letter)
    if kind == "class":
        return _class(text)
    if kind == "mark" and text == ".":
        return f"[^{_LINE_ENDS}]"  # RE2's . matches a carriage return
    if kind == "mark" and text == "$":
        return rf"(?:(?:\r\n|[{_LINE_ENDS}])?\z)"  # Java's $ matches before a line end at the end too
    if kind == "plain":
        return text if _LITERAL.fullmatch(text) else None
    return text


def _class(text: str) -> str | None:
    made = []
    for part in re.findall(r"\\.|.", text[1:-1], re.DOTALL):
        if part[0] == "\\" and part[1] in _PUNCTUATION:
            made.append(part)
        elif part[0] == "\\":
            if part[1] not in _IN_CLASS:
                return None
            made.append(_IN_CLASS[part[1]])
        elif _LITERAL.fullmatch(part) or part in ".^$*+?(){}|":
            made.append(part)
        else:
            return None
    return f"[{''.join(made)}]"


@dataclass(frozen=True)
class Finding:
    """A pattern of which it is clear what it finds: RE2's words for it, how many groups it has, and how many
    characters it finds at least. `one_way`: it is a sequence of characters and classes, each so often, in
    which the match that Java comes to first is the longest one, too, and its groups are the same. (Of two
    such matches the first is never further on in the pattern at any character, so where the other goes on
    it could go on as well.) Not so of a|ab in 'ab'."""

    pattern: str
    groups: int
    shortest: int
    one_way: bool


@dataclass
class _Group:
    captures: bool
    shortest: int = 0  # of the alternative that is being read
    others: list[int] = field(default_factory=list)  # of those before it
    inside: bool = False  # has a group that captures
    last: _Group | int = 0  # what a repeat would be of


# more repeats than that PostgreSQL refuses
_MOST_REPEATS = 255


def finding(pattern: str) -> Finding | None:
    """What a Java pattern finds, where the engines agree on it; None where they might not."""
    ours = portable(pattern)
    if ours is None:
        return None
    groups, one_way, repeated = 0, True, False
    open_groups = [_Group(captures=False)]
    for at in _PIECE.finditer(pattern):
        kind, text, inner = at.lastgroup, at[0], open_groups[-1]
        # $ would find a line end too, and a repeat of a repeat is lazy or possessive
        if (text == "$" and kind == "mark") or (text == "^" and kind == "mark" and at.start()):
            return None
        if kind == "repeat" and repeated:
            return None
        repeated = kind == "repeat"
        if text == "^" and kind == "mark":
            inner.last = 0
        elif text == "|" and kind == "mark":
            one_way = False
            inner.others.append(inner.shortest)
            inner.shortest, inner.last = 0, 0
        elif kind == "group" and text != ")":
            groups += text == "("
            open_groups.append(_Group(captures=text == "("))
        elif kind == "group":
            open_groups.pop()
            outer = open_groups[-1]
            inner.shortest = min([inner.shortest, *inner.others])
            outer.inside = outer.inside or inner.captures or inner.inside
            outer.shortest += inner.shortest
            outer.last = inner
        elif kind == "repeat":
            least, most = _times(text)
            one_way = one_way and isinstance(inner.last, int) and most <= _MOST_REPEATS
            if isinstance(inner.last, _Group):
                # what a repeated group captured, and whether it goes round for nothing, differs
                if inner.last.captures or inner.last.inside or not inner.last.shortest:
                    return None
                inner.shortest += (least - 1) * inner.last.shortest
            else:
                inner.shortest += (least - 1) * inner.last
        else:
            inner.shortest += 1
            inner.last = 1
    if pattern.startswith("^") and open_groups[0].others:
        return None  # ^ is of the first alternative alone
    return Finding(ours, groups, min([open_groups[0].shortest, *open_groups[0].others]), one_way)


def _times(repeat: str) -> tuple[int, int]:
    """How often at least, and at most as far as it is said."""
    if repeat[0] != "{":
        return (1 if repeat == "+" else 0), 1
    least, _, most = repeat[1:-1].partition(",")
    return int(least), int(most or least)
