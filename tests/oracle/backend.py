"""How hypothesis draws cases here: each by itself.

Its own way spends most of a run on small cases and on variants of one case, which suits tests that take no time.
Here a case takes a tenth of a second, and of a thousand cases four in ten views were repetitions. Failures are
replayed and shrunk by hypothesis as always.
"""

from __future__ import annotations

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

INDEPENDENT = "viewkeep-independent"


class Independent(HypothesisProvider):
    """Draws like hypothesis; that it has another name is what matters."""


AVAILABLE_PROVIDERS[INDEPENDENT] = Independent
