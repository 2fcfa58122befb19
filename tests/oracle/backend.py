"""How hypothesis draws cases here: each by itself.

Its own way spends most of a run on small cases and on variants of one case, which suits tests that take no time.
Here a case takes a tenth of a second, and of a thousand cases four in ten views were repetitions. Failures are
replayed and shrunk by hypothesis as always.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

INDEPENDENT = "viewkeep-independent"


class Independent(HypothesisProvider):
    """Draws like hypothesis; that it has another name is what matters."""


AVAILABLE_PROVIDERS[INDEPENDENT] = Independent


# shrinking a failure takes minutes: leave it out while hunting with many seeds
_PHASES = tuple(p for p in Phase if p is not Phase.shrink or "VIEWKEEP_NO_SHRINK" not in os.environ)


def independent_cases(number: int) -> settings:
    """So many cases, however long each takes."""
    return settings(
        max_examples=number,
        deadline=None,
        phases=_PHASES,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        backend=INDEPENDENT,
    )
