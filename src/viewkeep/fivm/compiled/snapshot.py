"""A compiled runtime on disk: everything it holds, in one file, and back without computing anything again."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeep.errors import CorruptCatalog
from viewkeep.fivm.compiled.rings import Cofactor, Ring, Sums
from viewkeep.fivm.compiled.runtime import CompiledRuntime
from viewkeep.fivm.order import given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import view_tree

# 2: the products of payloads lie in rows
FORMAT = 2
# a file that is cut off, or has changed, or is no snapshot; zipfile has RuntimeErrors for unknown flags
_UNREADABLE = (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, pa.ArrowInvalid, RuntimeError)


def save(runtime: CompiledRuntime, path: str | Path, watermark: Mapping[str, Any] | None = None) -> None:
    """Writes a snapshot, with what the caller needs to know to go on from it: `watermark` may say up to which
    version of each table it has come. The file at `path` is the old one or the new one, never half of it."""
    path = Path(path)
    tree = runtime.tree
    document = {
        "format": FORMAT,
        "relations": [asdict(relation) for relation in tree.query.relations],
        "free": tree.query.free,
        "order": tree.order.text(),
        "updatable": sorted(tree.updatable),
        "indicators": any(view.indicators for view in tree.views()),
        "ring": {"kind": type(runtime.ring).__name__, **asdict(runtime.ring)},
        "kinds": {v: coder.kind for v, coder in runtime.coders.items()},
        "watermark": dict(watermark or {}),
    }
    arrays = {f"array:{name}": array for name, array in runtime.kept().items()}
    arrays["document"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    for v, coder in runtime.coders.items():
        if coder.values:
            table = pa.table({"values": coder.values})
            arrays[f"values:{v}"] = np.frombuffer(_written(table), np.uint8)
    passing = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with passing.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        passing.replace(path)
    finally:
        passing.unlink(missing_ok=True)


def restore(path: str | Path, *, interpret: bool = False) -> tuple[CompiledRuntime, dict[str, Any]]:
    """The runtime of a snapshot, and its watermark."""
    path = Path(path)
    try:
        with path.open("rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as stored:
            document = json.loads(bytes(stored["document"]))
            if document["format"] != FORMAT:
                raise ValueError(f"format {document['format']!r} where {FORMAT} was expected")
            runtime = CompiledRuntime(_tree(document), _ring(document["ring"]), interpret=interpret)
            for v, coder in runtime.coders.items():
                name = f"values:{v}"
                values = _read(bytes(stored[name])) if name in stored else []
                coder.restore(document["kinds"][v], values)
            runtime.take({n.removeprefix("array:"): stored[n] for n in stored if n.startswith("array:")})
    except _UNREADABLE as problem:
        raise CorruptCatalog(
            f"the snapshot {path} cannot be read: {problem}",
            hint="load the tables again, and save another",
        ) from problem
    return runtime, document["watermark"]


def _tree(document: Mapping[str, Any]) -> Any:
    relations = tuple(
        Relation(r["name"], tuple(r["schema"]), r["table"], tuple(r["columns"]))
        for r in document["relations"]
    )
    order = given(Query(relations, tuple(document["free"])), document["order"])
    return view_tree(order, document["updatable"], indicators=document["indicators"])


def _ring(document: Mapping[str, Any]) -> Ring:
    if document["kind"] == "Sums":
        return Sums(tuple(map(tuple, document["products"])), document["exact"])
    return Cofactor(tuple(document["columns"]), dict(document["categories"]))


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _read(written: bytes) -> list[Any]:
    found: list[Any] = pa.ipc.open_stream(written).read_all().column("values").to_pylist()
    return found
