"""Properties that are computed once."""

from __future__ import annotations

from threading import Barrier, Thread

from viewkeep.cached import cached_property


class _Plan:
    """Two properties that ask for each other's, of another plan."""

    def __init__(self, meet: Barrier) -> None:
        self._meet = meet
        self.other: _Plan | None = None
        self.computed = 0

    @cached_property
    def columns(self) -> int:
        """How many columns."""
        self.computed += 1
        self._meet.wait()
        return 1 + (self.other.by_name if self.other else 0)

    @cached_property
    def by_name(self) -> int:
        self._meet.wait()
        return 1 + (self.other.columns if self.other else 0)


def test_it_is_computed_once() -> None:
    plan = _Plan(Barrier(1))
    assert (plan.columns, plan.columns, plan.computed) == (1, 1, 1)
    assert _Plan.columns.__doc__ == "How many columns."


def test_two_threads_do_not_wait_for_each_other() -> None:
    """As views are refreshed side by side: one asks a plan for its columns, and by them another for its names,
    while the other goes the other way. With a lock for all objects neither would come to its end."""
    meet, found = Barrier(2), []
    first, second = _Plan(meet), _Plan(meet)
    first.other, second.other = _Plan(meet), _Plan(meet)
    threads = [
        Thread(target=lambda: found.append(first.columns), daemon=True),
        Thread(target=lambda: found.append(second.by_name), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert found == [2, 2]
