"""A private PostgreSQL server: a cluster in a temporary folder, on loopback, gone when it is not needed.

Benchmarks and tests use it. A server of the user's own is never touched.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewkeep.errors import EngineError, Unavailable

_INSTALLED = Path("/usr/lib/postgresql")  # where Debian's packages put the programs that are not in PATH
_ROLE = "keeper"
# nothing here has to outlive a power failure
QUICK: Mapping[str, str] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

# what a server of this size is usually given; a commit waits for the disk
TUNED: Mapping[str, str] = {
    "shared_buffers": "2GB", "work_mem": "256MB", "maintenance_work_mem": "512MB", "max_wal_size": "8GB",
    "effective_cache_size": "8GB", "random_page_cost": "1.1", "autovacuum": "off",
}  # fmt: skip


@dataclass(frozen=True)
class Server:
    """A server that is running."""

    port: int
    control: tuple[str, ...] = ()
    """The command that starts and stops it, without the verb."""
    options: str = ""
    data: Path = Path()
    account: str | None = None

    def chill(self) -> None:
        """Starts the server again with nothing of its files in memory, neither its own nor the operating
        system's: what comes next has to read them. Connections are lost. With fsync off, what the system has
        not written yet stays in memory."""
        _run([*self.control, "-m", "fast", "stop"], self.account)
        for path in (self.data / "base").rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        _run([*self.control, "-o", self.options, "start"], self.account)

    def address(self, database: str = "postgres") -> str:
        """What viewkeep.connect() takes."""
        return f"postgresql://{_ROLE}@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str, database: str = "postgres") -> list[list[Any]]:
        """Runs a statement in a connection of its own; what it answers."""
        import pg8000.native

        con = pg8000.native.Connection(_ROLE, "127.0.0.1", database, self.port, ssl_context=False)
        try:
            return [list(row) for row in con.run(statement) or []]
        finally:
            con.close()


def programs() -> Path:
    """The folder that has initdb and postgres: of the newest version that Debian's packages installed, else
    the one in PATH."""
    versions = [p for p in _INSTALLED.glob("*/bin/initdb") if p.parent.parent.name.isdigit()]
    if versions:
        return max(versions, key=lambda p: int(p.parent.parent.name)).parent
    found = shutil.which("initdb")
    if found is None:
        raise Unavailable(
            "PostgreSQL's server is not installed", hint="Debian, Ubuntu: sudo apt-get install postgresql"
        )
    return Path(found).resolve().parent


@contextmanager
def private_server(
    settings: Mapping[str, str] = QUICK, locale: Sequence[str] = ("--locale=C",)
) -> Iterator[Server]:
    """A server of our own for as long as the block takes."""
    where = programs()
    account = _account()
    folder = Path(tempfile.mkdtemp(prefix="viewkeep-postgres-"))
    data, log = folder / "data", folder / "log"
    if account is not None:
        os.chown(folder, pwd.getpwnam(account).pw_uid, -1)
    try:
        _run(
            [where / "initdb", "-D", data, "-U", _ROLE, "-A", "trust", "-E", "UTF8", "--no-sync", *locale],
            account,
        )
        port = _free_port()
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        options += ["-c", "listen_addresses=127.0.0.1", "-c", f"port={port}"]
        options += ["-c", f"unix_socket_directories={folder}"]
        control = (str(where / "pg_ctl"), "-D", str(data), "-l", str(log), "-w")
        server = Server(port, control, " ".join(options), data, account)
        with _stopped_without_us(control, folder, account):
            _run([*control, "-o", server.options, "start"], account)
            try:
                yield server
            finally:
                _run([*control, "-m", "immediate", "stop"], account)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _stopped_without_us(control: Sequence[str], folder: Path, account: str | None) -> Iterator[None]:
    """A server outlives who started it. So a shell waits at a pipe that we hold, and closing it without a
    word, which the system does for whoever is killed, has it stop the server and remove its folder."""
    watch = 'read -r over && exit; "$@" -m immediate stop; rm -rf "$0"'
    watcher = subprocess.Popen(
        ["/bin/sh", "-c", watch, str(folder), *control],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=account,
        cwd="/",
        start_new_session=True,  # signals to our group, such as Ctrl-C, are not meant for it
    )
    try:
        yield
    finally:
        watcher.communicate(b"over\n")


def _run(command: Sequence[Any], account: str | None) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        user=account,
        cwd="/",
        check=False,
    )
    if done.returncode:
        raise EngineError(
            f"{Path(str(command[0])).name} failed: {done.stdout.decode(errors='replace').strip()[-500:]}",
            hint="can this user start a PostgreSQL server?",
        )


def _account() -> str | None:
    """The user that the server runs as: this one, but PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
