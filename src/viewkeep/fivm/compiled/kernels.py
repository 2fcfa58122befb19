"""Generated kernels as a module on disk, where Numba keeps what it has compiled beside the source."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

Kernel = Callable[..., Any]


def cache_folder() -> Path:
    """Where kernels are kept: $VIEWKEEP_CACHE, else the user's cache folder."""
    named = os.environ.get("VIEWKEEP_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "viewkeep"


def interpreted(source: str) -> ModuleType:
    """The module of a source text without a compiler: the same kernels, slow, for a look inside and for
    views that see few rows."""
    module = ModuleType("kernels")

    def as_it_is(function: Kernel) -> Kernel:
        return function

    def run(o: Any, at: int, y: float, a: Any, start: int, size: int) -> None:
        o.reshape(-1)[at : at + size] += y * a.reshape(-1)[start : start + size]

    def put(o: Any, at: int, y: float, a: Any, start: int, size: int) -> None:
        o[at : at + size] = y * a[start : start + size]

    def squares(o: Any, at: int, y: float, x: Any, size: int) -> None:
        for i in range(size):
            run(o, at, y * x[i], x, i, size - i)
            at += size - i

    def rows(o: Any, at: int, step: int, a: Any, first: int, count: int, z: Any, size: int) -> None:
        for i in range(count):
            run(o, at + i * step, a[first + i], z, 0, size)

    def clear(o: Any, s: int, size: int) -> None:
        o.reshape(-1)[s * size : (s + 1) * size] = 0

    plain = "\n".join(line for line in source.splitlines() if not line.startswith("from "))
    module.__dict__.update(helper=as_it_is, product=as_it_is, kernel=as_it_is)
    module.__dict__.update(run=run, put=put, squares=squares, rows=rows, clear=clear)
    module.__dict__.update(
        ahead=lambda p, s, size: None, pick=lambda which, i, one, other: one if which == i else other
    )
    exec(compile(plain, "<kernels>", "exec"), module.__dict__)
    return module


def loaded(source: str) -> ModuleType:
    """The module of a source text, compiled. The same text is compiled once, whatever process asks for it."""
    name = f"kernels_{hashlib.sha256(source.encode()).hexdigest()[:24]}"
    if name in sys.modules:
        return sys.modules[name]
    folder = cache_folder() / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    if not path.exists():
        passing = folder / f"{name}.{os.getpid()}.tmp"
        passing.write_text(source)
        passing.replace(path)  # another process may write the same at the same time
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
