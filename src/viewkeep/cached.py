"""Properties that are computed once, when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """As that of functools from Python 3.12 on. In 3.11 it has a lock that all objects of a class share:
        a thread that asks one plan for its `columns`, which ask for `by_name`, and another that asks another
        plan for its `by_name`, which asks for `columns`, then wait for each other for good. Here both may
        compute the same value, which does no harm."""

        def __init__(self, compute: Any) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value


__all__ = ["cached_property"]
