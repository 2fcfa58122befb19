"""What every command on a warehouse does: open it, report failures in one form, close it, set the status."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import NoReturn, TypeVar

import typer

import viewkeep
from viewkeep.cli import json_form
from viewkeep.cli.address import address
from viewkeep.cli.human_form import show_error
from viewkeep.cli.output import Console
from viewkeep.errors import ViewkeepError
from viewkeep.frontend.statements import Statement

T = TypeVar("T")


class Internal(ViewkeepError):
    """An exception that viewkeep did not foresee."""

    code = "internal"


class Session:
    """One run of a command: where it writes, and whether all has worked so far."""

    def __init__(self, *, json: bool = False, debug: bool = False) -> None:
        self.output = Console(json=json)
        self.json = json
        self.debug = debug
        self.ok = True

    def attempt(self, call: Callable[[], T]) -> T | ViewkeepError:
        """What the call gives back, or the error that it raised: unexpected ones too, never swallowed."""
        try:
            return call()
        except BrokenPipeError:
            # the reader of our output has seen enough; that is no error of anyone's
            raise
        except Exception as error:
            return self.as_error(error)

    def as_error(self, problem: Exception) -> ViewkeepError:
        """An exception as it is reported; called while it is handled."""
        self._trace()
        if isinstance(problem, ViewkeepError):
            return problem
        hint = "this is a mistake in viewkeep, not in your SQL; please report it"
        if not self.debug:
            hint += ", with what --debug prints"
        return Internal(f"{type(problem).__name__}: {problem}", hint=hint)

    def _trace(self) -> None:
        if self.debug:
            traceback.print_exc()

    def emit(self, n: int, form: json_form.Form) -> None:
        """One object of JSON output."""
        self.output.json({"n": n, **form})

    def fail(
        self, n: int, error: ViewkeepError, statement: Statement | None = None, source: str = ""
    ) -> None:
        """Reports an error; the command's status will be 1."""
        self.ok = False
        if self.json:
            self.emit(n, json_form.of_error(error, statement.first_line if statement else None))
        else:
            show_error(self.output, error, statement, source)

    def on_warehouse(
        self, engine: str | None, at: str | None, work: Callable[[viewkeep.Connection], None]
    ) -> None:
        """Opens the warehouse, does the work, and closes it again."""
        vk = self.attempt(lambda: self._open(address(engine, at)))
        if isinstance(vk, ViewkeepError):
            self.fail(1, vk)
            return
        try:
            work(vk)
        finally:
            with self.output.waiting("closing"):
                vk.close()

    def _open(self, where: str) -> viewkeep.Connection:
        with self.output.waiting(f"opening {where}"):
            return viewkeep.connect(where)

    def watched(self, vk: viewkeep.Connection, what: str, call: Callable[[], T]) -> T | ViewkeepError:
        """An attempt during which a terminal shows what goes on."""
        with self.output.waiting(what) as update:
            vk.progress = update
            return self.attempt(call)

    def chosen(self, vk: viewkeep.Connection, views: list[str] | None) -> list[str]:
        """The named views, or all there are."""
        if views:
            return views
        found = self.attempt(lambda: [view.name for view in vk.engine.views()])
        if isinstance(found, ViewkeepError):
            self.fail(1, found)
            return []
        return found

    def finish(self) -> NoReturn:
        """Ends the command with its status."""
        raise typer.Exit(0 if self.ok else 1)
