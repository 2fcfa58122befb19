"""A view tree kept in memory by compiled kernels, for rings whose payloads are rows of numbers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewkeep.errors import TypeMismatch, UnknownColumn, Unsupported
from viewkeep.fivm.compiled import spaces
from viewkeep.fivm.compiled.batches import CHUNK, Array, Batches, Columns
from viewkeep.fivm.compiled.coder import Coder
from viewkeep.fivm.compiled.program import Program, Space
from viewkeep.fivm.compiled.rings import Cofactor, Ring
from viewkeep.fivm.compiled.stages import LIMIT
from viewkeep.fivm.compiled.summing import Summing, summing
from viewkeep.fivm.compiled.triggers import Stage, Trigger, triggers
from viewkeep.fivm.tree import View, ViewTree, view_tree


@dataclass(frozen=True)
class Cofactors:
    """The regression aggregates of a training set: how many rows, the sum of each column, and the matrix of
    sums of products."""

    count: float
    columns: tuple[str, ...]
    sums: Array
    matrix: Array


class CompiledRuntime:
    """The views of a tree, as arrays. `update` takes inserted and deleted rows of a table as columns."""

    def __init__(self, tree: ViewTree, ring: Ring, *, interpret: bool = False) -> None:
        unknown = [v for v in ring.lifted if v not in tree.query.bound]
        if unknown:
            raise UnknownColumn(
                f"{unknown[0]} is no variable that the view sums over",
                hint=f"there are: {', '.join(tree.query.bound)}",
            )
        self.tree = tree
        self.ring = ring
        self.program = Program(tree, ring)
        self._interpret = interpret
        self._torn = False
        """Whether a change was interrupted when it was half made."""
        self._triggers = triggers(self.program, interpret)
        self._number = np.int64 if ring.exact else np.float64
        self.state: spaces.State = {}
        self._by_space: dict[int, list[str]] = {}
        self._batches = Batches(self.program, ring, self.state)
        self._start()

    def _start(self) -> None:
        program, state = self.program, self.state
        for space in program.spaces.values():
            spaces.start(state, space)
            self._by_space[space.number] = []
        for source, number in program.stored.items():
            self._array(f"p{number}", program.space(source), self._number, program.width(source))
        for view, number in program.views.items():
            if program.is_gathered(view):
                self._array(f"m{number}", program.space(view), np.int32, fill=-1)
                state[f"d{number}"] = np.empty(CHUNK, np.int64)
                state[f"b{number}"] = np.empty((CHUNK, program.width(view)), self._number)
        for (_, indicator), number in program.indicators.items():
            whole = program.spaces[frozenset(indicator.relation.schema)]
            self._array(f"q{number}", whole, self._number)
            self._array(f"e{number}", program.space(indicator), np.int64)
            self._array(f"fm{number}", program.space(indicator), np.int32, fill=-1)
            for name, kind in (("f", np.int64), ("fo", np.int64), ("fw", self._number)):
                state[f"{name}{number}"] = np.empty(CHUNK, kind)
        for trigger in self._triggers.values():
            for _, stages in trigger.ways:
                for stage in stages:
                    for name, width in stage.scratch.items():
                        state[name] = np.empty(width, self._number)
        for variable in self.ring.lifted:
            number = program.number(variable)
            state[f"lut{number}"] = np.zeros(1)
            state[f"coded{number}"] = np.zeros(1, np.int64)

    @property
    def coders(self) -> dict[str, Coder]:
        """The integers that stand for values of each variable."""
        return self._batches.coders

    def _array(self, name: str, space: Space, kind: Any, width: int = 0, fill: int = 0) -> None:
        """An array by the numbers of a space, which grows with it."""
        shape = (spaces.SMALL, width) if width else (spaces.SMALL,)
        self.state[name] = np.full(shape, fill, kind)
        self._by_space[space.number].append(name)

    def compile(self) -> float:
        """Compiles all kernels now rather than when each is first needed; the seconds it took."""
        started = time.perf_counter()
        for trigger in self._triggers.values():
            none = {v: np.empty(0, np.int64) for v in trigger.relation.schema}
            self.state |= self._batches.prepared(
                trigger, {trigger.relation.column(v): none[v] for v in none}, 1
            )[0]
            for flip, stages in trigger.ways:
                if flip is not None:
                    flip.run(*[self.state[name] for name in flip.parameters], 0, 0)
                for stage in stages:
                    arrays = [self.state[name] for name in stage.parameters]
                    stage.run(*arrays, 0, 0, CHUNK, *np.zeros((2, 1), np.int64), stage.which, 0)
        return time.perf_counter() - started

    # --- updates ---

    def load(self, tables: Mapping[str, Columns]) -> None:
        """The rows that tables begin with, also of those that do not change afterwards: these come all at
        once, and before any others."""
        frozen = {r.source for r in self.tree.query.relations if r.name not in self.tree.updatable}
        if frozen.isdisjoint(tables):
            self.apply({table: (columns, 1) for table, columns in tables.items()})
            return
        if any(
            self.state[f"n{space.number}"][0] for space in self.program.spaces.values() if space.variables
        ):
            raise Unsupported(
                f"{min(frozen & set(tables))} does not change, and there are rows already",
                hint="load all tables at once, into a runtime that is empty",
            )
        indicators = any(view.indicators for view in self.tree.views())
        whole = view_tree(self.tree.order, indicators=indicators)
        loader = CompiledRuntime(whole, self.ring, interpret=self._interpret)
        loader.load(tables)
        self._take_over(loader)

    def _take_over(self, other: CompiledRuntime) -> None:
        """What another runtime for the same query holds, as far as this one stores it."""
        mine, theirs = self.program, other.program
        self._batches.coders = other.coders
        kept: spaces.State = {}
        for space in mine.spaces.values():
            named = [(f"p{n}", f"p{theirs.stored[s]}", s.keys) for s, n in mine.stored.items()]
            for (view, i), n in mine.indicators.items():
                m = theirs.indicators[view, i]
                named += [(f"q{n}", f"q{m}", i.relation.schema), (f"e{n}", f"e{m}", i.keys)]
            named = [one for one in named if set(one[2]) == set(space.variables)]
            source = theirs.spaces[frozenset(space.variables)].number
            count = int(other.state[f"n{source}"][0])
            kept[f"k{space.number}"] = other.state[f"k{source}"][:count]
            kept |= {ours: other.state[name][:count] for ours, name, _ in named}
        self.take(kept)

    def update(self, table: str, columns: Columns, times: Any = 1) -> None:
        """Inserts rows of a table (`times` 1), deletes them (-1), or either, a number for each row."""
        self.apply({table: (columns, times)})

    def apply(self, changes: Mapping[str, tuple[Columns, Any]]) -> None:
        """Changes several tables, one after the other, all or none: columns, and how often each row comes."""
        self._refuse_torn()
        changed: list[Trigger] = []
        prepared: list[tuple[spaces.State, int]] = []
        known = self._batches.known()
        try:
            for table, (columns, times) in changes.items():
                for trigger in self._changing(table):
                    changed.append(trigger)
                    prepared.append(self._batches.prepared(trigger, columns, times))
        except BaseException:
            self._batches.forget(known)
            raise
        self._torn = True
        self._compact_if_full(max((count for _, count in prepared), default=0))
        done: list[tuple[Trigger, spaces.State, int]] = []
        with np.errstate(over="ignore"):  # hashes wrap around, and so do integers that are taken back
            for trigger, (inputs, count) in zip(changed, prepared, strict=True):
                try:
                    self._apply(trigger, inputs, count)
                except TypeMismatch:
                    for one in reversed(done):
                        self._take_back(*one)
                    self._torn = False
                    raise
                done.append((trigger, inputs, count))
        self._torn = False

    def _refuse_torn(self) -> None:
        if self._torn:
            raise Unsupported(
                "a change was interrupted when it was half made, and what is here is no result",
                hint="restore a snapshot, or load the tables into another runtime",
            )

    def summing(self, relation: str) -> Summing:
        """How rows of a relation may be summed up before they come, as `Summed`."""
        return summing(self.program, relation)

    def _changing(self, table: str) -> list[Trigger]:
        relations = self.tree.query.of_table(table)
        frozen = next((r.name for r in relations if r.name not in self.tree.updatable), None)
        if frozen is not None:
            raise Unsupported(
                f"{table} is not updatable in this view",
                hint="name it among the updatable tables when the view is made",
            )
        return [self._triggers[relation.name] for relation in relations]

    def _apply(self, relation: Trigger, inputs: spaces.State, count: int) -> None:
        self.state |= inputs
        for at in range(0, count, CHUNK):
            bad = self._chunk(relation, at, min(at + CHUNK, count), inputs)
            if bad:
                self._take_back(relation, inputs, min(at + CHUNK, count))
                raise TypeMismatch(
                    f"a sum over {relation.relation.name} does not fit into 64 bits; nothing was changed",
                    hint="sum doubles, or smaller numbers",
                )

    def _take_back(self, relation: Trigger, inputs: spaces.State, count: int) -> None:
        """Undoes so many rows. Integers wrap around, and so the same rows with the other sign undo them
        exactly; doubles never have to be."""
        inputs = {**inputs, **{name: -inputs[name] for name in ("w", "X") if name in inputs}}
        self.state |= inputs
        for at in range(0, count, CHUNK):
            self._chunk(relation, at, min(at + CHUNK, count), inputs)

    def _chunk(self, trigger: Trigger, start: int, stop: int, inputs: spaces.State) -> bool:
        """One run of rows through all ways of a relation's updates; whether an integer overflowed."""
        bad = np.zeros(1, np.int64)
        if "X" in inputs:
            self._enter(trigger, inputs["C"][start:stop], inputs["X"][start:stop], bad)
            return bool(bad[0])
        if trigger.stored is not None:
            self._reserve(trigger.stored, stop - start)
        for flip, stages in trigger.ways:
            if flip is None:
                self._run(stages, 0, start, stop, bad)
                continue
            for space in flip.spaces:
                self._reserve(space, stop - start)
            flipped = flip.run(*[self.state[name] for name in flip.parameters], start, stop)
            self._run(stages, 0, 0, flipped, bad)
        return bool(bad[0])

    def _enter(self, trigger: Trigger, codes: Array, added: Array, bad: Array) -> None:
        """Payloads by the keys of the first view: added to it, and gathered for the stages above."""
        [(_, stages)] = trigger.ways
        stage, state, count = stages[0], self.state, len(codes)
        self._reserve(stage.space, count)
        places = [trigger.keys.index(v) for v in stage.space.variables]
        slots = spaces.entered(state, stage.space, np.ascontiguousarray(codes[:, places]))
        stored = self.program.stored.get(stage.view)
        if stored is not None:
            payload = state[f"p{stored}"]
            if self.ring.exact and (abs(payload[slots].astype(float) + added) > float(LIMIT)).any():
                bad[0] = 1
            np.add.at(payload, slots, added)
        state[f"d{stage.number}"][:count] = slots
        state[f"b{stage.number}"][:count] = added
        if count and len(stages) > 1:
            self._run(stages, 1, 0, count, bad)

    def _run(self, stages: Sequence[Stage], at: int, start: int, stop: int, bad: Array) -> None:
        """A stage over what came in, and the further ones over what it gathered. A stage that makes many rows
        of one is stopped when there is no more room, and goes on after the others."""
        stage, state = stages[at], self.state
        need = np.zeros(1, np.int64)
        room = CHUNK
        while start < stop:
            self._reserve(stage.space, room if stage.fans_out else stop - start)
            if room > CHUNK and state[f"d{stage.number}"].shape[0] < room:
                state[f"d{stage.number}"] = np.empty(room, np.int64)
                state[f"b{stage.number}"] = np.empty((room, stage.width), self._number)
            arrays = [state[name] for name in stage.parameters]
            reached, gathered = stage.run(*arrays, start, stop, room, need, bad, stage.which, 0)
            if reached == start:
                room = int(need[0])
                continue
            if gathered and at + 1 < len(stages):
                self._run(stages, at + 1, 0, gathered, bad)
            start = reached

    def compact(self) -> int:
        """Drops the keys of which nothing is left; how many. A key space that is full does it by itself."""
        return sum(self._compact(space) for space in self.program.spaces.values() if space.variables)

    def _compact(self, space: Space) -> int:
        count = int(self.state[f"n{space.number}"][0])
        live = np.zeros(count, bool)
        for name in self._by_space[space.number]:
            if name[0] in "pqe":
                array = self.state[name][:count]
                live |= array.any(axis=1) if array.ndim > 1 else array != 0
        gone = count - int(live.sum())
        if gone:
            spaces.compact(self.state, space, live, self._by_space[space.number])
        return gone

    def _compact_if_full(self, extra: int) -> None:
        """Before arrays are doubled: may be that half of their keys are gone, if anything was deleted."""
        if not self._batches.deleted:
            return
        for space in self.program.spaces.values():
            room = self.state[f"k{space.number}"].shape[0]
            if room > CHUNK and self.state[f"n{space.number}"][0] + min(extra, CHUNK) > room:
                self._compact(space)

    def _reserve(self, space: Space, extra: int) -> None:
        if space.variables:
            spaces.reserve(self.state, space, extra, self._by_space[space.number])

    # --- what comes out ---

    def payloads(self, view: View | None = None) -> tuple[list[list[Any]], Array]:
        """The keys of a stored view, a list for each of its key columns, and its payloads; of the root unless
        said otherwise. Keys whose payload is all zero are left out."""
        self._refuse_torn()
        view = view or self.tree.root
        space = self.program.space(view)
        count = int(self.state[f"n{space.number}"][0])
        payload = self.state[f"p{self.program.stored[view]}"][:count]
        there = np.any(payload != 0, axis=1)
        keys = self.state[f"k{space.number}"][:count][there]
        columns = [self.coders[v].decode(keys[:, space.variables.index(v)]) for v in view.keys]
        return columns, payload[there]

    def result(self) -> dict[tuple[Any, ...], Array]:
        """The root view: a row of numbers for each key."""
        keys, payloads = self.payloads()
        rows = zip(*keys, strict=True) if keys else (() for _ in payloads)
        return {tuple(key): row for key, row in zip(rows, payloads, strict=True)}

    def cofactors(self, key: tuple[Any, ...] = ()) -> Cofactors:
        """Count, sums and sums of products of the columns, for one key of the root view."""
        assert isinstance(self.ring, Cofactor)
        layout = self.program.layouts[self.tree.root]
        row = self.result().get(key, np.zeros(layout.width))
        size = layout.size
        matrix = np.zeros((size, size))
        for i, one in enumerate(layout.elements):
            for k, other in enumerate(layout.elements):
                place = layout.places.get(frozenset([one, other]))
                if place is not None:
                    matrix[i, k] = row[place]
                elif i == k:  # a category, whose square is itself
                    matrix[i, i] = row[1 + i]
        names = tuple(
            f"{v}={self.coders[v].values[k]}" if v in self.ring.categories else v
            for v, k in layout.elements
            if v not in self.ring.categories or k < len(self.coders[v].values)
        )
        there = [
            i
            for i, (v, k) in enumerate(layout.elements)
            if v not in self.ring.categories or k < len(self.coders[v].values)
        ]
        return Cofactors(float(row[0]), names, row[1 : 1 + size][there], matrix[np.ix_(there, there)])

    def kept(self) -> spaces.State:
        """What a snapshot keeps: keys and payloads, without room to grow and without what they determine."""
        self._refuse_torn()
        self.compact()
        kept = {}
        for space in self.program.spaces.values():
            count = int(self.state[f"n{space.number}"][0])
            kept[f"k{space.number}"] = self.state[f"k{space.number}"][:count]
            kept |= {n: self.state[n][:count] for n in self._by_space[space.number] if n[0] in "pqe"}
        return kept

    def take(self, kept: Mapping[str, Array]) -> None:
        """What a snapshot kept, into a runtime that is empty. What does not fit is a ValueError."""
        self._check_kept(kept)
        for space in self.program.spaces.values():
            count = len(kept[f"k{space.number}"])
            self._reserve(space, count)
            for name in (f"k{space.number}", *self._by_space[space.number]):
                if name[0] in "kpqe":
                    self.state[name][:count] = kept[name]
            if space.variables:
                live = np.ones(count, bool)
                spaces.compact(self.state, space, live, self._by_space[space.number])
        for variable in self.ring.lifted:
            if self.coders[variable].values:
                self._batches.lift_keys(variable)

    def _check_kept(self, kept: Mapping[str, Array]) -> None:
        """Arrays of another tree, or of another ring, are not taken for this one's."""
        expected = set()
        for space in self.program.spaces.values():
            keys = f"k{space.number}"
            names = [keys, *(n for n in self._by_space[space.number] if n[0] in "pqe")]
            expected |= set(names)
            for name in names:
                own, found = self.state[name], kept.get(name)
                if (
                    found is None
                    or found.dtype != own.dtype
                    or found.shape != (len(kept[keys]), *own.shape[1:])
                ):
                    raise ValueError(f"{name} is not what the view tree has there")
        if set(kept) - expected:
            raise ValueError(f"the view tree has no {min(set(kept) - expected)}")

    def sizes(self) -> dict[str, int]:
        """How many keys each stored view, relation and indicator has, those with nothing left not counted."""
        arrays = {source.name: (f"p{n}", source) for source, n in self.program.stored.items()}
        arrays |= {
            f"{i.name} at {view.name}": (f"e{n}", i) for (view, i), n in self.program.indicators.items()
        }
        found = {}
        for name, (array, source) in arrays.items():
            payloads = self.state[array][: int(self.state[f"n{self.program.space(source).number}"][0])]
            found[name] = int(np.count_nonzero(payloads.reshape(len(payloads), -1).any(axis=1)))
        return found

    def memory(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self.state.values())
