"""Statements that would break views, refused before the engine gets them.

To an engine a materialized view is a plain view over tables in the schema `viewkeep`, and its base tables
are tables like others: it would drop, rename or replace them without a word.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeep.catalog.models import View
from viewkeep.engines.contract import Engine
from viewkeep.errors import AlreadyExists, DependentViews, Unsupported
from viewkeep.frontend.statements import altered_by, name_of, place_of
from viewkeep.store.places import SCHEMA

_SCHEMAS = ("SCHEMA", "DATABASE", "NAMESPACE")


def refuse_what_breaks_views(
    node: exp.Expr, text: str, engine: Engine, find_view: Callable[[str], View | None]
) -> None:
    """Raises what speaks against a statement that is about to be handed to the engine."""
    kind = (node.args.get("kind") or "").upper() if isinstance(node, exp.Drop | exp.Create) else ""
    if isinstance(node, exp.Drop):
        _refuse_several(node.args["tables"], text, "DROP")
        if kind in _SCHEMAS:
            _refuse_drop_schema(name_of(node.args["tables"][0]), engine)
    if isinstance(node, exp.TruncateTable):
        _refuse_several(node.expressions, text, "TRUNCATE")
    if isinstance(node, exp.Create) and kind in ("TABLE", "VIEW"):
        _refuse_create(node, kind, text, engine, find_view)
    if (altered := altered_by(node, text)) is not None and find_view(altered) is not None:
        raise Unsupported(
            f"{altered} is a materialized view, which cannot be altered",
            hint="use CREATE OR REPLACE MATERIALIZED VIEW, or DROP it and create it again",
        )
    if isinstance(node, exp.Drop | exp.Create | exp.Alter | exp.DML):
        _refuse_own(node, text)


def _refuse_several(tables: list[exp.Expr], text: str, verb: str) -> None:
    if len(tables) > 1:
        raise Unsupported(
            f"{verb} takes one name", hint=f"write one {verb} for each", place=place_of(tables[1], text)
        )


def _refuse_drop_schema(schema: str, engine: Engine) -> None:
    """Views and their tables would go with it, and what viewkeep knows of them would stay."""
    if schema.lower() == SCHEMA:
        raise Unsupported(
            f"{schema} is where viewkeep keeps what views store",
            hint="DROP MATERIALIZED VIEW drops a view and all that is stored for it",
        )

    def inside(name: str) -> bool:
        return engine.qualify(f"{schema}.{name.rpartition('.')[2]}").lower() == name.lower()

    lost = [
        view.name for view in engine.views() if inside(view.name) or any(inside(t.name) for t in view.tables)
    ]
    if lost:
        raise DependentViews(
            f"schema {schema} has views, or tables that views read: {', '.join(lost)}",
            hint=f"DROP MATERIALIZED VIEW {lost[0]} first",
        )


def _refuse_create(
    node: exp.Create, kind: str, text: str, engine: Engine, find_view: Callable[[str], View | None]
) -> None:
    made = node.this.this if isinstance(node.this, exp.Schema) else node.this
    name = name_of(made)
    properties = node.args.get("properties")
    temporary = properties is not None and properties.find(exp.TemporaryProperty) is not None
    if kind == "TABLE" and temporary:
        raise Unsupported(
            "a temporary table is of one session, and what is read from it is not there for a refresh",
            hint="CREATE TABLE, and DROP it when it has served",
            place=place_of(made, text),
        )
    if kind == "VIEW" and find_view(name) is not None:
        raise AlreadyExists(
            f"{name} is a materialized view",
            hint="use another name, or CREATE OR REPLACE MATERIALIZED VIEW",
            place=place_of(made, text),
        )
    # it would be read in place of the table, by refreshes too
    full = engine.qualify(name)
    if kind == "VIEW" and temporary and engine.find_table(full) and not engine.is_plain_view(full):
        raise AlreadyExists(f"{name} is a table", hint="use another name", place=place_of(made, text))


def _refuse_own(node: exp.Expr, text: str) -> None:
    """Nobody writes to what viewkeep stores, or makes anything beside it."""
    target = node.args["tables"][0] if isinstance(node, exp.Drop) else node.this
    target = target.this if isinstance(target, exp.Schema) else target
    if isinstance(target, exp.Table) and target.db.lower() == SCHEMA and target.name:
        raise Unsupported(
            f"{name_of(target)} is in the schema {SCHEMA}, where viewkeep keeps what is its own",
            hint="change base tables, and REFRESH or DROP views",
            place=place_of(target, text),
        )
