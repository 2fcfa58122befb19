"""Streams into base tables: a batch is written once, however often it is delivered, and views follow it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from viewkeep.engines.contract import Engine
from viewkeep.errors import Unsupported
from viewkeep.results import Refresh

if TYPE_CHECKING:
    from viewkeep.connection import Connection

Sink = Callable[[Any, int], None]
MODES = ("append", "upsert")


def refresh_sink(vk: Connection, *views: str, into: str, name: str, mode: str = "append") -> Sink:
    """`vk.stream_into`, as a function."""
    return vk.stream_into(into, views, mode, name=name)


def sink(
    engine: Engine,
    table: str,
    mode: str,
    name: str,
    views: Sequence[str],
    refresh: Callable[..., list[Refresh]],
) -> Sink:
    """A function of a batch and its number that writes the batch to a base table and refreshes views: those
    named, else all that read the table.

    `name` is the stream's, the same at every start and of no other stream into the table: by it and by its
    number a batch that was written already is recognized, and changes nothing. Where the refresh fails the
    batch is delivered again: it is not written twice, and the refresh takes up all that waits.
    """
    if mode not in MODES:
        raise Unsupported(f"there is no mode {mode}", hint=f"modes: {', '.join(MODES)}")
    if not name:
        raise Unsupported("a stream needs a name", hint="give it one that stays the same at every start")

    def write_and_refresh(batch: Any, number: int) -> None:
        engine.write_batch(table, batch, mode, name, number)
        reading = [
            view.name for view in engine.views() if table.lower() in {t.name.lower() for t in view.tables}
        ]
        if chosen := views or reading:
            refresh(*chosen)

    return write_and_refresh
