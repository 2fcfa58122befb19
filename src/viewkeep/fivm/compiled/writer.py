"""Source text as it is written: lines, blocks, names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_VALUE = re.compile(r"\s*(v_\d+) = ")


class Writer:
    """Lines of source, indented; and the arrays that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.parameters: dict[str, None] = {}
        self._fresh = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        at = len(self.lines)
        yield
        if len(self.lines) == at:
            self.line("pass")
        self.depth -= 1

    def array(self, name: str) -> str:
        """An array of the runtime's, which becomes a parameter."""
        self.parameters.setdefault(name)
        return name

    def fresh(self, stem: str) -> str:
        self._fresh += 1
        return f"{stem}_{self._fresh}"

    def named(self, stem: str, expression: str) -> str:
        """Gives an expression a name of its own."""
        name = self.fresh(stem)
        self.line(f"{name} = {expression}")
        return name


@dataclass(frozen=True)
class Function:
    """A function as source."""

    decorator: str
    name: str
    parameters: tuple[str, ...]
    lines: tuple[str, ...]


def shared(functions: Iterable[Function]) -> tuple[list[str], dict[str, str]]:
    """Their text, and what each is called there. Functions that do the same with other arrays are one: most
    of what compiling takes goes by the number of statements. Those that are called come first."""
    texts: dict[str, str] = {}
    names: dict[str, str] = {}
    for function in functions:
        given = {name: f"a{i}" for i, name in enumerate(function.parameters)}
        text = _renamed("\n".join(_needed(function.lines)), names | given)
        text = f"({', '.join(given.values())}):\n{text}\n\n"
        names[function.name] = texts.setdefault(f"@{function.decorator}\ndef {{}}{text}", function.name)
    return [text.format(name) for text, name in texts.items()], names


def _renamed(text: str, names: dict[str, str]) -> str:
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)


def _needed(lines: tuple[str, ...]) -> Iterator[str]:
    """All lines but those that name a value of a key which nothing comes of."""
    words = _WORD.findall("\n".join(lines))
    for line in lines:
        value = _VALUE.match(line)
        if value is None or words.count(value[1]) > 1:
            yield line
