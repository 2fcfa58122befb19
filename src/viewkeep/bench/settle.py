"""Tables as they are when an engine has had the time to see to them: nobody measured should do it."""

from __future__ import annotations

from viewkeep.connection import Connection


def settle(vk: Connection) -> None:
    """Writes loaded rows where they belong, and gathers statistics."""
    if vk.engine.name == "duckdb":
        # the loaded rows belong in the file, not in the log that the first timed commit would have to fold in
        vk.engine._con.execute("CHECKPOINT")  # type: ignore[attr-defined]
    if vk.engine.name == "postgres":
        vk.engine._session.run("VACUUM ANALYZE")  # type: ignore[attr-defined]
        vk.engine._session.run("CHECKPOINT")  # type: ignore[attr-defined]
