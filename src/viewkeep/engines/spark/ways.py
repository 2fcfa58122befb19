"""The ways in which a view can be refreshed on Spark, and which one is chosen: its script with its caches,
the one that needs none, or recomputing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewkeep.algebra.nodes import Aggregate, Scan
from viewkeep.algebra.script_nodes import Stored
from viewkeep.catalog.models import View
from viewkeep.chooser import ALONE, Choice, Kept, Past
from viewkeep.engines.choosing import is_weighed, weigh
from viewkeep.engines.report import Counts
from viewkeep.engines.spark.feeds import Changes
from viewkeep.passes.compiler import Compiled, Present
from viewkeep.script.cost import Sizes
from viewkeep.script.model import Script
from viewkeep.script.prune import MOST_VALUES
from viewkeep.store import delta

# seconds that a statement takes however little it reads: planning it, and Delta's commit
STATEMENT = 0.3


@dataclass(frozen=True)
class Way:
    """What a refresh is to do: the script, what that is called, the state that it starts from, and what the
    reason says of it."""

    script: Script
    strategy: str
    state: delta.State
    note: str = ""


def way_of(compiled: Compiled, changes: Changes, state: delta.State, choice: Choice) -> Way:
    """The view's own script, or the one that needs no caches: the rows name none from then on."""
    if choice.caches:
        script = compiled.script(changes.present)
        return Way(script, "groups" if script.recomputes else compiled.strategy, state)
    assert compiled.lean is not None  # it was chosen
    script = compiled.lean.script(changes.present)
    note = f", {choice.reason}" if choice.reason else ""
    return Way(script, "groups" if script.recomputes else "tuple", state.without_caches(), note)


def chosen(
    view: View,
    compiled: Compiled,
    history: Callable[[], Sequence[Past]],
    present: Present,
    counts: Counts,
    state: delta.State,
) -> Choice:
    """What a refresh is to do. `history`: the view's earlier refreshes, which take a job to read."""
    sizes, script = found_by_values(compiled, state), compiled.script(present)
    past = history() if is_weighed(view, sizes) else ()
    kept = _kept(compiled, state, past)

    def lean() -> tuple[Script, float] | None:
        """Caches take long to fill again here, and both estimates are crude: none are given up before it was
        seen what the view's own script takes."""
        tried = kept.is_bare or any(p.strategy not in ("full", "tuple") for p in past)
        if compiled.lean is None or not tried:
            return None
        made = compiled.lean.script(present)
        return made, _overhead(made)

    return weigh(view, compiled, script, counts, sizes, _overhead(script), lambda: past, kept, lean=lean)


def _overhead(script: Script) -> float:
    """The seconds that a script's statements take at least."""
    return STATEMENT * (len(script.lets) + len(script.applies))


def _kept(compiled: Compiled, state: delta.State, past: Sequence[Past]) -> Kept:
    """What a view keeps. To fill a relation takes jobs and a commit however few rows it has, so what filling
    takes without caches is guessed from all of them, not from the longest, and never below what it takes with
    them before that was measured."""
    relations = len(compiled.placement.targets)
    if relations == 1:
        return ALONE
    filled = [p.seconds for p in past if p.strategy == "full" and p.statements >= relations]
    return Kept(relations, state.is_bare(compiled.caches), filled[-1] if filled else None)


def found_by_values(compiled: Compiled, state: delta.State) -> Sizes:
    """What a refresh scans: not targets, of which a few values are found by their pages; of base tables all
    files. There are no more groups than rows in the cache below them."""
    found = compiled.lookups()

    def is_looked_up(leaf: Scan | Stored, column: str) -> bool:
        return isinstance(leaf, Stored) and column in found[leaf.target]

    root = compiled.placement.root
    below = next((t.name for t in compiled.placement.targets if t.node in root.inputs), "")
    groups = state.cached.get(below) if isinstance(root, Aggregate) else None
    rows = {delta.ROWS: groups} if groups is not None else {}
    return Sizes(state.sizes, {**state.cached, **rows}, is_looked_up, looked_up=MOST_VALUES)
