"""Regular expressions that Java's and RE2's engines read alike, after a little translation.

RLIKE only asks whether a pattern is found, so which of several matches comes first does not matter. What
is left: `.`, `$` and the classes, whose meaning differs at line ends, and syntax that one of them lacks.
"""

from __future__ import annotations

import re

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
