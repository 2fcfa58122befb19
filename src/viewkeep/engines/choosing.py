"""What every engine does to choose between a delta script and recomputing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from viewkeep.catalog.models import View
from viewkeep.chooser import ALONE, SMALL_TABLES, Choice, Facts, Kept, Past, choose
from viewkeep.engines.report import Counts, total
from viewkeep.passes.compiler import Compiled
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
) -> Choice:
    """The choice for one refresh. Nothing is estimated, and the past is not asked for, where the policy or
    the size of the tables settles it."""
    rows = sum(sizes.tables.values())
    known = partial(Facts, total(counts), rows, kept=kept)
    if view.policy != "auto" or rows < SMALL_TABLES:
        return choose(view.policy, known(0, 0, 0, ()))
    reads = rows_of_plan(compiled.plan, sizes), rows_read(script, sizes)
    return choose(view.policy, known(*reads, overhead, past()))
