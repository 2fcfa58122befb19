"""One connection to a PostgreSQL server."""

from __future__ import annotations

import getpass
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pg8000.core
import pg8000.native
from pg8000.exceptions import DatabaseError, InterfaceError

from viewkeep.errors import EngineError

# two sessions each waiting for the other; one that saw what another changed meanwhile: to try again helps
RETRY = ("40P01", "40001")
_PORT = 5432


class Failure(Exception):
    """What the server answered instead of a result: its code and its words."""

    def __init__(self, code: str, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.detail = code, message, detail


class Session:
    """A connection, for one thread at a time."""

    def __init__(self, address: str) -> None:
        self._lock = threading.RLock()
        self._address = address
        self._con = self._connected()

    def _connected(self) -> pg8000.native.Connection:
        arguments = connection_arguments(self._address)
        try:
            made = pg8000.native.Connection(**arguments, application_name="viewkeep")
        except (DatabaseError, InterfaceError, OSError) as problem:
            raise EngineError(
                f"{_without_password(self._address)} cannot be opened: {_said(problem)}",
                hint="is the server running, and are host, port, user and database right?",
            ) from problem
        # a compiler that starts up for milliseconds does not pay for queries that take as long
        made.run("SET jit = off")
        made.run("SET client_min_messages = warning")
        return made

    def reconnect(self) -> None:
        """Connects again, to a server that was started again; what the session had of its own is gone."""
        with self._lock:
            self._con = self._connected()

    def rows(self, sql: str, *parameters: Any) -> list[list[Any]]:
        """What a statement answers; $1, $2, ... are its parameters."""
        return self._run(sql, parameters).rows or []

    def run(self, sql: str, *parameters: Any) -> int:
        """Runs a statement; how many rows it made or changed."""
        count = self._run(sql, parameters).row_count
        return max(int(count or 0), 0)

    def answer(self, sql: str) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...], int]:
        """What a statement answers: its columns, its rows, and how many rows it made or changed."""
        context = self._run(sql, ())
        columns = tuple(str(c["name"]) for c in context.columns or ())
        return columns, tuple(tuple(row) for row in context.rows or ()), max(context.row_count or 0, 0)

    def _run(self, sql: str, parameters: Sequence[Any]) -> Any:
        with self._lock:
            try:
                if not parameters:
                    return self._con.execute_simple(sql)
                return self._con.execute_unnamed(sql, vals=parameters)
            except DatabaseError as problem:
                told = problem.args[0] if problem.args else {}
                if not isinstance(told, dict):
                    raise
                raise Failure(told.get("C", ""), told.get("M", ""), told.get("D", "")) from problem
            except (InterfaceError, OSError) as problem:
                raise EngineError(
                    f"the connection to the server is lost: {_said(problem)}", hint="connect again"
                ) from problem

    @contextmanager
    def transaction(self, begin: str = "BEGIN") -> Iterator[None]:
        """All or nothing."""
        with self._lock:
            self.run(begin)
            try:
                yield
                self.run("COMMIT")
            except BaseException:
                self.run("ROLLBACK")
                raise

    @contextmanager
    def holding(self, names: Sequence[str]) -> Iterator[None]:
        """Locks that only viewkeep knows of, by name; whoever comes second waits. All take them in one order,
        so that nobody waits in a circle. The server lets go of them when the connection ends."""
        with self._lock:
            held = []
            try:
                for name in sorted(set(names)):
                    self.rows("SELECT pg_advisory_lock(hashtextextended($1, 0))", f"viewkeep:{name.lower()}")
                    held.append(name)
                yield
            finally:
                for name in held:
                    self.rows(
                        "SELECT pg_advisory_unlock(hashtextextended($1, 0))", f"viewkeep:{name.lower()}"
                    )

    def close(self) -> None:
        """Ends the connection."""
        with self._lock:
            self._con.close()


def connection_arguments(address: str) -> dict[str, Any]:
    """postgresql://user:password@host:port/database?host=/socket&sslmode=require, with what is left out taken
    from PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE, as psql does."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as problem:
        raise EngineError(f"{address} is no address: {problem}", hint=_FORM) from problem
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    unknown = set(options) - {"host", "port", "user", "password", "dbname", "sslmode"}
    if unknown:
        raise EngineError(f"viewkeep does not know {', '.join(sorted(unknown))} in an address", hint=_FORM)
    environ = os.environ
    user = options.get("user") or unquote(parts.username or "") or environ.get("PGUSER") or getpass.getuser()
    host = options.get("host") or unquote(parts.hostname or "") or environ.get("PGHOST") or "localhost"
    number = int(options.get("port") or port or environ.get("PGPORT") or _PORT)
    password = options.get("password") or unquote(parts.password or "") or environ.get("PGPASSWORD")
    database = options.get("dbname") or unquote(parts.path.lstrip("/")) or environ.get("PGDATABASE") or user
    made: dict[str, Any] = {"user": user, "database": database, "password": password or None}
    if host.startswith("/"):
        return made | {"unix_sock": f"{host}/.s.PGSQL.{number}"}
    secure = {"disable": False, "require": True, "prefer": None}
    mode = options.get("sslmode", "prefer")
    if mode not in secure:
        raise EngineError(f"sslmode={mode} is not supported", hint=f"use {', '.join(secure)}")
    return made | {"host": host, "port": number, "ssl_context": secure[mode]}


_FORM = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE; psql's variables (PGHOST, ...) stand in for parts"


def _without_password(address: str) -> str:
    parts = urlsplit(address)
    if not parts.password:
        return address
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@")).geturl()


def _said(problem: Exception) -> str:
    told = problem.args[0] if problem.args else problem
    return str(told.get("M", told)) if isinstance(told, dict) else str(told)
