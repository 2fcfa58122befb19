"""Random regular expressions, and what Python finds by them: it backtracks as Java does, and its syntax is the
same for these."""

from __future__ import annotations

import random
import re

STRINGS = [
    "", "a", "b", "ab", "ba", "aab", "abb", "abab", "bbaa", "aacbc", "a1b22 c", "  ab  12", "c-1a-b2", "abcabcabc",
    "111", "ccc", "cab1 bac2", "xay", "a\nb", "1.5a",
]  # fmt: skip
_ATOMS = ["a", "b", "c", "1", "[ab]", "[^a]", "[a-c1]", ".", "\\d", "\\w", "\\s", "\\D", "-", " ", "[^\\d]"]
_REPEATS = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}"]


def sequence(draw: random.Random, groups: bool = True) -> str:
    """Characters and classes, each so often, some of them in groups: the longest match is the first, too."""
    made = ""
    for _ in range(draw.randint(1, 4)):
        part = draw.choice(_ATOMS) + draw.choice(_REPEATS)
        if groups and draw.random() < 0.4:
            part = f"({part}{draw.choice(_ATOMS)}{draw.choice(_REPEATS)})"
        made += part
    return made


def choice(draw: random.Random) -> str:
    """With alternatives and repeated groups, of which the first that fits is taken."""
    parts = []
    for _ in range(draw.randint(1, 2)):
        inner = "|".join(sequence(draw, groups=False) for _ in range(draw.randint(1, 2)))
        parts.append(f"(?:{inner}){draw.choice(_REPEATS)}" if draw.random() < 0.6 else f"({inner})")
    return "".join(parts) + sequence(draw)


def cases(count: int, seed: int) -> list[str]:
    """Patterns of both kinds, some only at the beginning."""
    draw = random.Random(seed)
    made = []
    for n in range(count):
        pattern = sequence(draw) if n % 2 else choice(draw)
        made.append(f"^{pattern}" if draw.random() < 0.15 else pattern)
    return list(dict.fromkeys(made))


def replaced(pattern: str, by: str) -> list[str]:
    return [
        re.sub(pattern, by.replace("$0", r"\g<0>").replace("$1", r"\g<1>"), s, flags=re.A) for s in STRINGS
    ]


def extracted(pattern: str, group: int) -> list[str]:
    found = [re.search(pattern, s, re.A) for s in STRINGS]
    return [(m[group] or "") if m else "" for m in found]


def counted(pattern: str) -> list[int]:
    return [len(list(re.finditer(pattern, s, re.A))) for s in STRINGS]


def split(pattern: str) -> list[list[str]]:
    made = []
    for s in STRINGS:
        parts, at = [], 0
        for m in re.finditer(pattern, s, re.A):
            parts.append(s[at : m.start()])
            at = m.end()
        made.append([*parts, s[at:]])
    return made
