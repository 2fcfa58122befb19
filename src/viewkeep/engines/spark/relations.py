"""The relations that one refresh computes: each once, as local data where it is small."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from viewkeep.algebra.expressions import PRE, pre_name
from viewkeep.algebra.script_nodes import BaseDiff, Images, Ref
from viewkeep.engines.spark.names import LOCAL_ROWS, local_frame, temporary

# Of relations up to this size it is found out which values they look for.
FEW_ROWS = 10_000


@dataclass
class Relations:
    """Temporary views of a session, by name: how many rows each has, and the rows where they are local."""

    session: Any
    sizes: dict[str, int] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)
    _unseen: set[str] = field(default_factory=set)
    """Local relations that Spark has not been shown: to show one takes longer than to make it."""
    _persisted: list[Any] = field(default_factory=list)

    @property
    def are_local(self) -> bool:
        """Whether all of them are small."""
        return not self._persisted

    def compute(self, name: str, frame: Any) -> int:
        """Computes a relation once and registers it; its number of rows."""
        small = frame.limit(LOCAL_ROWS + 1).toArrow()
        if small.num_rows <= LOCAL_ROWS:
            self.register(name, small)
        else:
            kept = frame.persist()
            self._persisted.append(kept)
            kept.createOrReplaceTempView(name)
            self.sizes[name] = kept.count()
        return self.sizes[name]

    def register(self, name: str, rows: Any) -> None:
        """Takes local rows as a relation."""
        self.sizes[name], self.local[name] = rows.num_rows, rows
        self._unseen.add(name)

    def show(self, *names: str) -> None:
        """Lets Spark read local relations by their names: these, or all."""
        for name in sorted(self._unseen.intersection(names) if names else self._unseen):
            local_frame(self.session, self.local[name]).createOrReplaceTempView(name)
            self._unseen.discard(name)

    def values(self, small: Ref | BaseDiff | Images, name: str) -> frozenset[Any] | None:
        """All that a relation has in a column, where it is local data and not much."""
        if isinstance(small, Ref):
            rows, names = self.local.get(temporary(small.name)), [name]
        else:
            rows = self.local.get(temporary(f"net_{small.scan.table}"))
            base = small.scan.base_name.get(name.removeprefix(PRE), "")
            names = [n for n in (base, pre_name(base)) if rows is not None and n in rows.column_names]
        if rows is None or not names or rows.num_rows > FEW_ROWS:
            return None
        return frozenset().union(*(rows.column(n).unique().to_pylist() for n in names))

    def forget(self) -> None:
        """Gives back what Spark keeps of them."""
        for frame in self._persisted:
            frame.unpersist()
