"""Ring aggregates over joins, kept by view trees (F-IVM, SIGMOD 2018)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from viewkeep.errors import Unavailable

_WHERE = {
    "Query": "query",
    "Relation": "query",
    "VariableOrder": "order",
    "chosen": "order",
    "given": "order",
    "ViewTree": "tree",
    "view_tree": "tree",
    "GenericRuntime": "generic",
    "checked": "laws",
    "RingLaw": "laws",
    "CompiledRuntime": "compiled.runtime",
    "Cofactor": "compiled.rings",
    "Sums": "compiled.rings",
    "save": "compiled.snapshot",
    "restore": "compiled.snapshot",
    "DenseRuntime": "dense",
    "Factorized": "relational",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for, and no more: kernels need Numba, other rings do not."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_WHERE[name]}")
    except ModuleNotFoundError as problem:
        if problem.name not in ("numba", "numpy"):
            raise
        raise Unavailable(f"{name} needs {problem.name}", hint='pip install "viewkeep[fivm]"') from problem
    return getattr(module, name)


__all__ = list(_WHERE)
