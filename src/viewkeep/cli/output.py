"""The one place that draws: lines, tables, bars, JSON, errors, and progress while something runs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import rich.console
from rich import box
from rich.cells import cell_len
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

Update = Callable[[str], None]

_BAR_WIDTH = 40
# Wide enough that nothing wraps or is cut off where a program, not a person, reads the output.
_PIPED_WIDTH = 100_000


class Console:
    """Standard output for what was asked, standard error for progress and errors.

    In JSON mode only json() writes to standard output; line(), table() and bars() are silent, so that
    a command can call them in either mode.
    """

    def __init__(self, *, json: bool = False) -> None:
        self.json_mode = json
        self._out = _stream(stderr=False)
        self._err = _stream(stderr=True)
        self._lines: list[_Line] = []
        self._live: Live | None = None

    # --- for people ---

    def line(self, text: str = "", style: str = "") -> None:
        """One line of text; long ones are left to the terminal to wrap."""
        if not self.json_mode:
            self._print(self._out, Text(text, style=style))

    def table(
        self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = ""
    ) -> None:
        """Rows under column names; numbers to the right. An empty title or caption is left out."""
        if self.json_mode:
            return
        shown = [tuple(row) for row in rows]
        table = Table(box=box.SIMPLE_HEAD, show_edge=False)
        for at, name in enumerate(columns):
            numeric = all(_is_number(row[at]) for row in shown if row[at] is not None) and bool(shown)
            table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
        for row in shown:
            table.add_row(*(_cell(value) for value in row))
        # rich would break a title or a caption that is longer than its table is wide
        if title:
            self.line(title, style="bold")
        self._print(self._out, table)
        if caption:
            self.line(caption, style="dim")

    def bars(self, title: str, values: Sequence[tuple[str, float, str]]) -> None:
        """A horizontal bar for each (label, value, text); the longest is the largest value."""
        if self.json_mode:
            return
        block = "█" if _is_utf8(self._out.encoding) else "#"
        largest = max((value for _, value, _ in values), default=0.0) or 1.0
        grid = Table.grid(padding=(0, 1))
        for label, value, text in values:
            length = round(_BAR_WIDTH * value / largest)
            # something is never drawn as nothing
            bar = block * max(length, 1 if value > 0 else 0)
            grid.add_row(Text(f"  {label}"), Text(bar, style="cyan"), Text(text))
        if title:
            self.line(title, style="bold")
        self._print(self._out, grid)

    def error(
        self, message: str, *, where: str = "", excerpt: tuple[int, str, int] | None = None, hint: str = ""
    ) -> None:
        """An error on standard error. The excerpt is a line number, that line, and the column at fault."""
        parts = [
            Text.assemble(("error", "bold red"), f": {where}: " if where else ": ", _visible_lines(message))
        ]
        if excerpt is not None:
            parts += _excerpt(*excerpt)
        if hint:
            parts.append(Text.assemble("  ", ("hint", "bold"), f": {_visible_lines(hint)}"))
        for part in parts:
            self._print(self._err, part)

    # --- for programs ---

    def json(self, obj: Mapping[str, Any]) -> None:
        """One JSON object on one line, flushed, so that a reader at the other end of a pipe has it."""
        escape = not _is_utf8(getattr(sys.stdout, "encoding", None))
        text = json.dumps(obj, ensure_ascii=escape, allow_nan=False)
        with self._paused():
            print(text, flush=True)

    # --- progress ---

    @contextmanager
    def waiting(self, text: str) -> Iterator[Update]:
        """While the block runs a terminal shows a spinner, `text` and the time so far; then nothing stays.

        Yields a function that changes the text. Blocks may nest: each has its own line.
        """
        if not sys.stderr.isatty():
            yield _ignore
            return
        line = _Line(text)
        self._lines.append(line)
        self._redraw()
        try:
            yield line.say
        finally:
            self._lines.remove(line)
            self._redraw()

    @contextmanager
    def step(self, text: str) -> Iterator[Update]:
        """Like waiting(), and leaves a line `text ... 1.2 s` behind."""
        started = time.perf_counter()
        try:
            with self.waiting(text) as update:
                yield update
        except BaseException:
            self.line(f"{text} ... failed after {time.perf_counter() - started:.1f} s", style="red")
            raise
        self.line(f"{text} ... {time.perf_counter() - started:.1f} s")

    def _redraw(self) -> None:
        """Puts the spinner on the screen, or takes it off where nothing is waited for any more."""
        self._erase()
        if self._lines:
            # Redirecting would send what goes to standard output, JSON too, to standard error.
            self._live = Live(
                get_renderable=lambda: _spinners(self._lines),
                console=self._err,
                refresh_per_second=8,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _erase(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Takes the spinner off the screen while something else is written there."""
        self._erase()
        try:
            yield
        finally:
            self._redraw()

    def _print(self, console: rich.console.Console, what: Text | Table) -> None:
        with self._paused():
            if isinstance(what, Text):
                console.print(what, soft_wrap=True)
            else:
                console.print(what)
            console.file.flush()


class _Line:
    """One thing that is waited for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.started = time.perf_counter()
        self.spinner = Spinner("dots", style="green")

    def say(self, text: str) -> None:
        """Changes what the line says."""
        self.text = text


def _spinners(lines: Sequence[_Line]) -> Table:
    grid = Table.grid(padding=(0, 1))
    for line in lines:
        elapsed = f"{time.perf_counter() - line.started:.1f} s"
        grid.add_row(line.spinner, Text(_visible(line.text)), Text(elapsed, style="yellow"))
    return grid


def _stream(*, stderr: bool) -> rich.console.Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPED_WIDTH
    return rich.console.Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


def _ignore(_: str) -> None:
    """Progress that nobody watches."""


def _is_utf8(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("-", "") == "utf8"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, Text):
        return value
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, Decimal):
        return Text(format(value, "f"))
    return Text(_visible(str(value)))


def _visible(text: str) -> str:
    """Line breaks and control characters written out: data must not move the terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _visible_lines(text: str) -> str:
    return "\n".join(_visible(line) for line in text.splitlines())


def _excerpt(number: int, line: str, column: int) -> list[Text]:
    """The line at fault with a caret under the column, compilers' way."""
    gutter = f"{number:>5} | "
    before = _visible(line[: column - 1].replace("\t", "    "))
    after = _visible(line[column - 1 :].replace("\t", "    "))
    caret = " " * (len(gutter) - 2) + "| " + " " * cell_len(before) + "^"
    return [Text(gutter + before + after), Text(caret, style="bold red")]
