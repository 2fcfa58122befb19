"""The delta script: what to compute, then what to apply. No engine's words in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewkeep.algebra.nodes import Node
from viewkeep.algebra.script_nodes import Ref
from viewkeep.idiff.diff import Diff
from viewkeep.rules.context import Target


@dataclass(frozen=True)
class Let:
    """A relation computed once and read by name. With `unless_empty`, only where that relation has rows."""

    name: str
    query: Node
    unless_empty: str | None = None


@dataclass(frozen=True)
class Apply:
    """Diffs for a target. `changes` is the same as one relation by full ID, where the script has it."""

    target: Target
    diffs: tuple[Diff, ...]
    changes: Ref | None


@dataclass(frozen=True)
class Script:
    """All lets before all applies: a script that fails while computing has touched nothing."""

    strategy: str
    targets: tuple[Target, ...]
    lets: tuple[Let, ...]
    applies: tuple[Apply, ...]

    recomputes: bool = False
    """Whether it computes the partitions or groups that a change touches anew, whatever the change is."""

    @property
    def by_name(self) -> Mapping[str, Let]:
        return {let.name: let for let in self.lets}
