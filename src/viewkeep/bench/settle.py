"""Tables as they are when an engine has had the time to see to them: nobody measured should do it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from viewkeep.connection import Connection

# tables and indexes, but not the server's own
_PREWARM = (
    "SELECT pg_prewarm(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'i') AND n.nspname IN ('public', 'viewkeep')"
)


def settle(vk: Connection) -> None:
    """Writes loaded rows where they belong, and gathers statistics."""
    if vk.engine.name == "duckdb":
        # the loaded rows belong in the file, not in the log that the first timed commit would have to fold in
        vk.engine._con.execute("CHECKPOINT")  # type: ignore[attr-defined]
    if vk.engine.name == "postgres":
        vk.engine._session.run("VACUUM ANALYZE")  # type: ignore[attr-defined]


def warm(vk: Connection) -> None:
    """Reads all there is into memory. Each round looks for other keys: what one method alone reads, such as
    its cache, would come from disk in every round after a cold one, while what a scan has read is there."""
    if vk.engine.name == "postgres":
        vk.engine._session.run("CREATE EXTENSION IF NOT EXISTS pg_prewarm")  # type: ignore[attr-defined]
        vk.engine._session.run(_PREWARM)  # type: ignore[attr-defined]


@contextmanager
def hashing(vk: Connection) -> Iterator[None]:
    """Queries over whole tables, joined by hashing. PostgreSQL takes two columns of a key for independent, so
    it expects few rows of joins by both, and looks each of millions up."""
    if vk.engine.name != "postgres":
        yield
        return
    session = vk.engine._session  # type: ignore[attr-defined]
    session.run("SET enable_nestloop = off")
    try:
        yield
    finally:
        session.run("RESET enable_nestloop")
