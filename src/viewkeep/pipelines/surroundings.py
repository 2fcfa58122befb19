"""The surroundings in which a project's own code runs: whichever way it asks for the session it gets the one
that takes its queries down, and it cannot change that session.

A view that read a temporary view or a setting made on the way would mean something else whenever it is
refreshed. PySpark refuses the same calls in pipelines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.udf import UDFRegistration

from viewkeep.errors import Unsupported

_BLOCKED: tuple[tuple[type, str], ...] = (
    (RuntimeConfig, "set"),
    (RuntimeConfig, "unset"),
    (Catalog, "setCurrentCatalog"),
    (Catalog, "setCurrentDatabase"),
    (Catalog, "dropTempView"),
    (Catalog, "dropGlobalTempView"),
    (DataFrame, "createTempView"),
    (DataFrame, "createOrReplaceTempView"),
    (DataFrame, "createGlobalTempView"),
    (DataFrame, "createOrReplaceGlobalTempView"),
    (UDFRegistration, "register"),
    (UDFRegistration, "registerJavaFunction"),
    (UDFRegistration, "registerJavaUDAF"),
)


@contextmanager
def code_of_the_project(session: Any) -> Iterator[None]:
    """While code of the project runs."""
    made: dict[tuple[type, str], Any] = {
        (SparkSession, "active"): classmethod(lambda _: session),
        (SparkSession, "getActiveSession"): classmethod(lambda _: session),
        (SparkSession.Builder, "getOrCreate"): lambda _: session,
    }
    made |= {(owner, name): _refusing(owner.__name__, name) for owner, name in _BLOCKED}
    # the descriptors themselves: getattr would give what they are bound to
    before = {(owner, name): vars(owner)[name] for owner, name in made}
    try:
        for (owner, name), method in made.items():
            setattr(owner, name, method)
        yield
    finally:
        for (owner, name), method in before.items():
            setattr(owner, name, method)


def _refusing(owner: str, name: str) -> Any:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise Unsupported(
            f"{owner}.{name} changes the session, which the code of a pipeline cannot do",
            hint="use the pipeline's configuration for settings, @dp.temporary_view for views, and "
            "vk.register_function for functions",
        )

    return refuse
