"""Source text as it is written: lines, blocks, names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
