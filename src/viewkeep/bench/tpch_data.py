"""The eight tables of TPC-H: their definitions, and their rows from tpchgen-cli.

The generator writes what the specification's own does, bit by bit, in seconds.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from viewkeep.errors import EngineError, Unavailable, Unsupported

_GENERATOR = "tpchgen-cli"
# Below it there are so few suppliers that the specification's formula gives partsupp some keys twice.
LEAST_SCALE = 0.01


@dataclass(frozen=True)
class TableDefinition:
    """A table: its columns with their types, its key, and the rows of other tables that it names."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    references: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(name for name, _ in self.columns)

    def create(self) -> str:
        """The statement that makes it. No column of TPC-H is ever null."""
        parts = [f"{name} {kind} NOT NULL" for name, kind in self.columns]
        parts.append(f"PRIMARY KEY ({', '.join(self.key)})")
        parts += [
            f"FOREIGN KEY ({', '.join(own)}) REFERENCES {table} ({', '.join(theirs)})"
            for own, table, theirs in self.references
        ]
        return f"CREATE TABLE {self.name} ({', '.join(parts)})"

    def fill(self, engine: str, folder: Path) -> str:
        """The statement that loads the generated rows, in the words of an engine: one INSERT reads the file,
        and the rows never pass through Python."""
        file = f"{folder / self.name}.parquet"
        source = f"parquet.`{file}`" if engine == "spark" else f"read_parquet('{file}')"
        return f"INSERT INTO {self.name} SELECT {', '.join(self.names)} FROM {source}"


def _columns(prefix: str, definitions: str) -> tuple[tuple[str, str], ...]:
    """name type, name type, ...: the types in short, the names without the prefix."""
    kinds = {"key": "BIGINT", "int": "INT", "money": "DECIMAL(15,2)", "text": "STRING", "date": "DATE"}
    pairs = (definition.split() for definition in definitions.split(","))
    return tuple((f"{prefix}_{name}", kinds[kind]) for name, kind in pairs)


# A table comes after those that it references.
TABLES: Sequence[TableDefinition] = (
    TableDefinition("region", _columns("r", "regionkey key, name text, comment text"), ("r_regionkey",)),
    TableDefinition(
        "nation",
        _columns("n", "nationkey key, name text, regionkey key, comment text"),
        ("n_nationkey",),
        ((("n_regionkey",), "region", ("r_regionkey",)),),
    ),
    TableDefinition(
        "supplier",
        _columns(
            "s",
            "suppkey key, name text, address text, nationkey key, phone text, acctbal money, comment text",
        ),
        ("s_suppkey",),
        ((("s_nationkey",), "nation", ("n_nationkey",)),),
    ),
    TableDefinition(
        "customer",
        _columns(
            "c",
            "custkey key, name text, address text, nationkey key, phone text, acctbal money, "
            "mktsegment text, comment text",
        ),
        ("c_custkey",),
        ((("c_nationkey",), "nation", ("n_nationkey",)),),
    ),
    TableDefinition(
        "part",
        _columns(
            "p",
            "partkey key, name text, mfgr text, brand text, type text, size int, container text, "
            "retailprice money, comment text",
        ),
        ("p_partkey",),
    ),
    TableDefinition(
        "partsupp",
        _columns("ps", "partkey key, suppkey key, availqty int, supplycost money, comment text"),
        ("ps_partkey", "ps_suppkey"),
        (
            (("ps_partkey",), "part", ("p_partkey",)),
            (("ps_suppkey",), "supplier", ("s_suppkey",)),
        ),
    ),
    TableDefinition(
        "orders",
        _columns(
            "o",
            "orderkey key, custkey key, orderstatus text, totalprice money, orderdate date, "
            "orderpriority text, clerk text, shippriority int, comment text",
        ),
        ("o_orderkey",),
        ((("o_custkey",), "customer", ("c_custkey",)),),
    ),
    TableDefinition(
        "lineitem",
        _columns(
            "l",
            "orderkey key, partkey key, suppkey key, linenumber int, quantity money, extendedprice money, "
            "discount money, tax money, returnflag text, linestatus text, shipdate date, commitdate date, "
            "receiptdate date, shipinstruct text, shipmode text, comment text",
        ),
        ("l_orderkey", "l_linenumber"),
        (
            (("l_orderkey",), "orders", ("o_orderkey",)),
            (("l_partkey",), "part", ("p_partkey",)),
            (("l_suppkey",), "supplier", ("s_suppkey",)),
            (("l_partkey", "l_suppkey"), "partsupp", ("ps_partkey", "ps_suppkey")),
        ),
    ),
)


def files(scale: float, folder: Path) -> Path:
    """The directory with a Parquet file for each table at a scale: made in the folder if it is not there."""
    if scale < LEAST_SCALE:
        raise Unsupported(
            f"TPC-H cannot be made at scale {scale:g}: partsupp would have some keys twice",
            hint=f"--scale {LEAST_SCALE} is the smallest",
        )
    made = folder / f"tpch-{scale:g}"
    if made.is_dir():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    # under another name first, so that a run that was broken off leaves nothing that looks complete
    with TemporaryDirectory(prefix=".tpch-", dir=folder) as unfinished:
        _generate(scale, Path(unfinished) / "files")
        (Path(unfinished) / "files").rename(made)
    return made


def _generate(scale: float, directory: Path) -> None:
    # next to Python first: an environment's scripts need not be on the path
    program = shutil.which(_GENERATOR, path=sysconfig.get_path("scripts")) or shutil.which(_GENERATOR)
    if program is None:
        raise Unavailable(
            f"{_GENERATOR}, which makes the rows of TPC-H, is not installed",
            hint='pip install "viewkeep[bench]"',
        )
    options = ["parquet", "--quiet", "--scale-factor", f"{scale:g}", "--output-dir", str(directory)]
    done = subprocess.run([program, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        raise EngineError(
            f"{_GENERATOR} failed: {said[-1]}", hint="check the scale, and the space on the disk"
        )
