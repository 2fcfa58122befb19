"""viewkeep bench: measurements."""

from __future__ import annotations

from typing import Annotated

import typer

from viewkeep.cli import options
from viewkeep.cli.session import Session
from viewkeep.errors import Unsupported, ViewkeepError


def bench(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The workload: devices, devices-int, many, social, tpch, fivm or paper."
        ),
    ],
    engine: Annotated[options.EngineName, typer.Option("--engine", help="The engine.")] = "duckdb",
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="WHERE", help="Where to build the tables, and keep them.", show_default=False
        ),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(
            "--scale",
            min=0.0001,
            help="devices: 1 is 1M parts, 1M devices, 10M devices_parts; paper: five times that; "
            "tpch: 1 is TPC-H's own, 6M rows of lineitem.",
        ),
    ] = 0.1,
    view: Annotated[
        list[str] | None,
        typer.Option(
            "--view", help="Measure this view only, for example q3; may be repeated.", show_default=False
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Measure this method only; may be repeated.", show_default=False),
    ] = None,
    diff: Annotated[
        list[str] | None,
        typer.Option(
            "--diff",
            metavar="N|P%",
            help="How much changes, in rows or as a share of them; may be repeated.",
            show_default="200; tpch: 0.01%, 0.1% and 1% of orders and lineitem",
        ),
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Measurements of each.")] = 5,
    waiting: Annotated[
        int,
        typer.Option(
            "--waiting",
            min=0,
            help="Then measure reading the views, too, while the diffs of so many refreshes wait (spark).",
        ),
    ] = 0,
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep",
            help="Then go on with ever larger changes, to where recomputing wins, and tell what auto chose.",
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Where generated files are kept for the next run (tpch).",
            show_default=False,
        ),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            "--figure",
            help="Run the experiment of this figure only: 10, 12a, 12b, 12c or 12d; may be repeated (paper).",
            show_default=False,
        ),
    ] = None,
    cold: Annotated[
        int,
        typer.Option(
            "--cold",
            min=0,
            help="So many measurements of each with nothing in memory, too (paper, postgres).",
        ),
    ] = 0,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Measure what refreshes cost, by method and size of the change.

    Examples:

    ```
    viewkeep bench devices
    viewkeep bench devices --engine spark --scale 1 --method id --method recompute --json
    viewkeep bench tpch --scale 1 --data ~/tpch
    viewkeep bench tpch --view q1 --view q3 --diff 0.1%
    viewkeep bench paper --engine postgres --figure 12a --scale 0.1
    viewkeep bench fivm --scale 1 --view housing-cofactor
    ```
    """
    session = Session(json=json, debug=debug)

    def measure() -> int:
        from viewkeep.bench import runner

        of_workloads: dict[str, object] = {"--view": view, "--method": method, "--diff": diff}
        of_workloads |= {"--waiting": waiting, "--sweep": sweep, "--data": data}
        others = {"--figure": figure, "--cold": cold} if name != "paper" else {**of_workloads, "--at": at}
        if name == "many":
            others |= of_workloads
        for option, given in others.items():
            if given:
                raise Unsupported(f"{option} means nothing to {name}", hint=f"leave out {option}")
        if name == "fivm":
            from viewkeep.bench.fivm import run_fivm

            return run_fivm(
                scale=scale,
                workloads=view,
                methods=method,
                batches=diff,
                repeat=repeat,
                json=json,
                output=session.output,
            )
        if name == "many":
            from viewkeep.bench.many import run_many

            return run_many(
                engine=engine, scale=scale, repeat=repeat, json=json, at=at, output=session.output
            )
        if name == "paper":
            return runner.run_paper(
                engine=engine,
                scale=scale,
                figures=figure,
                repeat=repeat,
                cold=cold,
                json=json,
                output=session.output,
            )
        return runner.run(
            name,
            engine=engine,
            scale=scale,
            views=view,
            methods=method,
            diffs=diff,
            repeat=repeat,
            waiting=waiting,
            sweep=sweep,
            json=json,
            at=at,
            data=data,
            output=session.output,
        )

    status = session.attempt(measure)
    if isinstance(status, ViewkeepError):
        session.fail(1, status)
        session.finish()
    raise typer.Exit(status)
