"""viewkeep regression: the linear model of a view with COFACTOR."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from viewkeep.cli import options
from viewkeep.cli.json_form import of_regression
from viewkeep.cli.session import Session
from viewkeep.connection import Connection
from viewkeep.errors import ViewkeepError
from viewkeep.linear_models import Group
from viewkeep.results import Regression


def regression(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="A view with COFACTOR.", show_default=False)],
    label: Annotated[str, typer.Option("--label", help="The column that is told by the others.")],
    features: Annotated[
        list[str] | None,
        typer.Option("--feature", help="A column to tell it by; may be repeated. Default: all others."),
    ] = None,
    ridge: Annotated[float, typer.Option("--ridge", help="What squared coefficients count for.")] = 0.0,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="COLUMN=VALUE", help="The group, column by column. Default: all."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="The alias of the COFACTOR, of several.", show_default=False),
    ] = None,
    engine: options.Engine = None,
    at: options.At = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Fit a linear model to the rows behind a view, from the sums that the view keeps.

    Examples:

    ```
    viewkeep regression houses --label price --at duckdb:shop.db
    viewkeep regression by_city --label price --group city=Oslo --at duckdb:shop.db
    ```
    """
    chosen = dict(map(_pair, group)) if group else None
    session = Session(json=json, debug=debug)
    asked = partial(
        Connection.regression, view=view, label=label, features=features or None, ridge=ridge,
        group=chosen, name=name,
    )  # fmt: skip
    session.on_warehouse(engine, at, lambda vk: _report(session, vk, view, partial(asked, vk)))
    session.finish()


def _pair(text: str) -> tuple[str, str]:
    column, found, value = text.partition("=")
    if not found:
        raise typer.BadParameter(f"{text!r} is not COLUMN=VALUE", param_hint="--group")
    return column.strip(), value


def _report(
    session: Session, vk: Connection, view: str, asked: Callable[[], Regression | dict[Group, Regression]]
) -> None:
    made = session.watched(vk, f"fitting {view}", asked)
    if isinstance(made, ViewkeepError):
        session.fail(1, made)
        return
    models: dict[Group, Regression] = {(): made} if isinstance(made, Regression) else made
    for n, (group, model) in enumerate(models.items(), start=1):
        if session.json:
            session.emit(n, of_regression(view, model, group))
        else:
            if group:
                session.output.line(f"{', '.join(map(str, group))}:")
            session.output.line(str(model))
