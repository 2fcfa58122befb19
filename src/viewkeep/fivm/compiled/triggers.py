"""What an update of a relation runs: its kernels, ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from viewkeep.fivm.compiled.codegen import Kernel, generate
from viewkeep.fivm.compiled.kernels import interpreted, loaded
from viewkeep.fivm.compiled.program import Program, Space
from viewkeep.fivm.query import Relation
from viewkeep.fivm.tree import Indicator, Leaf, Step, View


@dataclass(frozen=True)
class Stage:
    """A kernel, what it takes, and where what it gathers goes."""

    run: Callable[..., tuple[int, int]]
    parameters: tuple[str, ...]
    fans_out: bool
    number: int
    space: Space
    view: View
    width: int
    scratch: Mapping[str, int]
    which: int


@dataclass(frozen=True)
class Flip:
    """The kernel that finds what an indicator gains and loses."""

    run: Callable[..., int]
    parameters: tuple[str, ...]
    spaces: tuple[Space, ...]


@dataclass(frozen=True)
class Trigger:
    """What an update of a relation does: its columns, and its ways to the root."""

    relation: Relation
    keys: tuple[str, ...]
    lifts: tuple[str, ...]
    stored: Space | None
    """The space of the relation itself, where its rows are kept."""
    ways: tuple[tuple[Flip | None, tuple[Stage, ...]], ...]


def triggers(program: Program, interpret: bool) -> dict[str, Trigger]:
    """Loads the kernels of a program."""
    generated = generate(program)
    module = interpreted(generated.source) if interpret else loaded(generated.source)

    def stage(kernel: Kernel) -> Stage:
        view = kernel.stage.view
        return Stage(
            getattr(module, kernel.name),
            kernel.parameters,
            kernel.fans_out,
            program.views[view],
            program.space(view),
            view,
            program.width(view),
            kernel.scratch,
            kernel.which,
        )

    def flip(step: Step) -> Flip | None:
        source = step.source
        if not isinstance(source, Indicator):
            return None
        number = program.indicators[step.view, source]
        touched = (program.spaces[frozenset(source.relation.schema)], program.space(source))
        name, parameters = generated.flips[number]
        return Flip(getattr(module, name), parameters, touched)

    found = {}
    for name, kernels in generated.triggers.items():
        ways = program.tree.paths(name)
        leaf = ways[0][0].source
        assert isinstance(leaf, Leaf)
        found[name] = Trigger(
            leaf.relation,
            program.columns_of(name),
            program.lifts_of(name),
            program.space(leaf) if leaf in program.stored else None,
            tuple((flip(way[0]), tuple(map(stage, some))) for way, some in zip(ways, kernels, strict=True)),
        )
    return found
