"""What every engine does to choose between a delta script and recomputing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from viewkeep.catalog.models import View
from viewkeep.chooser import ALONE, SMALL_TABLES, Choice, Facts, Kept, Lean, Netting, Past, choose
from viewkeep.engines.report import Counts, total
from viewkeep.passes.compiler import Compiled
from viewkeep.script.accesses import estimated
from viewkeep.script.cost import Sizes, rows_of_plan, rows_read
from viewkeep.script.model import Script


def weigh(
    view: View,
    compiled: Compiled,
    script: Script,
    counts: Counts,
    sizes: Sizes,
    overhead: float,
    past: Callable[[], Sequence[Past]],
    kept: Kept = ALONE,
    netting: Netting | None = None,
    lean: Callable[[], tuple[Script, float] | None] = lambda: None,
) -> Choice:
    """The choice for one refresh. Nothing is estimated, and the past is not asked for, where the policy or
    the size of the tables settles it. `lean`: the script that needs no caches, if there is one, and the
    seconds that its statements take at least."""
    known = partial(Facts, total(counts), sum(sizes.tables.values()), kept=kept, netting=netting)
    if not is_weighed(view, sizes):
        return choose(view.policy, known(0, 0, 0, ()))
    reads, scans = _reads(script, counts, sizes)
    other = lean()
    facts = known(
        rows_of_plan(compiled.plan, sizes),
        reads,
        overhead,
        past(),
        script_scans=scans,
        looked_up=sizes.looked_up,
        lean=Lean(*_reads(other[0], counts, sizes), other[1]) if other is not None else None,
    )
    return choose(view.policy, facts)


def is_weighed(view: View, sizes: Sizes) -> bool:
    """Whether estimates settle what a refresh does, and not the policy or the size of the tables."""
    return view.policy == "auto" and sum(sizes.tables.values()) >= SMALL_TABLES


def _reads(script: Script, counts: Counts, sizes: Sizes) -> tuple[int, int]:
    """The rows that a script reads, and those that it scans where it looks none up."""
    scans = rows_read(script, replace(sizes, is_looked_up=lambda leaf, column: False))
    return estimated(script, sizes, total(counts)), scans
