"""The function of one stage of an update, as source.

It goes over what came in, joins each row with its siblings by looking up or iterating, multiplies payloads,
and adds to what it gathers for the keys of its view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from viewkeep.fivm.compiled.products import scaled_columns
from viewkeep.fivm.compiled.program import Program, Stage
from viewkeep.fivm.compiled.rings import Cofactor, Sums
from viewkeep.fivm.compiled.writer import Writer
from viewkeep.fivm.tree import Indicator, Leaf, Source, View

# integers past this may have overflowed: a little under 2**63
LIMIT = "9.2e18"
# so many rows ahead payloads are fetched
AHEAD = 6
Scope = Mapping[str, str]
"""Variables that are bound, and the names of their values."""


@dataclass(frozen=True)
class Row:
    """A payload at hand: the expression of its row, or of the one number that a leaf has."""

    source: Source
    at: str


@dataclass(frozen=True)
class _Here:
    """How far a join has come: at which step, with which payloads and variables, and which keys are known by
    their numbers. Which of two siblings is iterated over is chosen once at the most."""

    step: int
    rows: tuple[Row, ...]
    left: tuple[Source, ...]
    scope: Scope
    slots: Mapping[frozenset[str], str]
    choosing: bool = True

    def having(self, source: Source, slot: str) -> _Here:
        """With a sibling found under this number."""
        left = tuple(s for s in self.left if s is not source)
        return replace(self, left=left, slots={**self.slots, frozenset(source.keys): slot})


class StageWriter:
    """Writes one stage. `first`: what comes in are rows of a relation, or changes of an indicator."""

    def __init__(self, program: Program, stage: Stage, name: str, *, first: bool) -> None:
        self.program = program
        self.stage = stage
        self.name = name
        self.first = first
        self.out = Writer()
        self.scratch: dict[str, int] = {}
        """Arrays for numbers on the way, and how long they are."""
        self.fans_out = False
        self._exact = program.ring.exact
        self._relation = stage.steps[0].source.relations[0]

    def write(self) -> None:
        """Writes the lines of the function's body."""
        out, view = self.out, self.stage.view
        number, space = self.program.views[view], self.program.space(view)
        source = self.stage.steps[0].source
        out.depth = 2
        scope, slots = self._incoming(source)
        bound = self._bound(scope)
        if bound is not None:
            self.fans_out = True
            with out.block(f"if made + {bound} > room:"):
                out.line(f"need[0] = {bound}")
                out.line("stop = r")
                out.line("break")
            out.line(f"made += {bound}")
        if isinstance(source, Leaf) and source in self.program.stored:
            # not before there is room for what it is joined with: a row that has to wait comes again
            slots[frozenset(source.keys)] = self._kept(source, scope)
        self._through(0, Row(source, "delta"), scope, slots)
        body, out.lines = out.lines, []
        out.depth = 1
        for array in (f"m{number}", f"d{number}", f"b{number}", f"k{space.number}", *self.scratch):
            out.array(array)
        out.line("made = 0")
        out.line("nd = 0")
        out.line("for r in range(start, stop):")
        out.lines += body
        self._settle(view, number)
        out.line("return stop, nd")

    def _settle(self, view: View, number: int) -> None:
        """Adds what was gathered to what is stored."""
        out = self.out
        with out.block("for j in range(nd):"):
            out.line(f"s = d{number}[j]")
            out.line(f"m{number}[s] = -1")
            if view in self.program.stored:
                stored = out.array(f"p{self.program.stored[view]}")
                with out.block(f"for i in range({self.program.width(view)}):"):
                    if self._exact:
                        total = f"abs(float({stored}[s, i]) + float(b{number}[j, i]))"
                        with out.block(f"if {total} > {LIMIT}:"):
                            out.line("bad[0] = 1")
                    out.line(f"{stored}[s, i] += b{number}[j, i]")

    # --- what comes in ---

    def _incoming(self, source: Source) -> tuple[dict[str, str], dict[frozenset[str], str]]:
        """Names the variables and the payload of what comes in: a row of the batch, a change of an indicator,
        or a row that an earlier stage gathered."""
        out = self.out
        if self.first and isinstance(source, Leaf):
            scope = {v: self._bind(v, self._column(v)) for v in self.program.keys_of(source.name)}
            out.line(f"delta = {out.array('w')}[r]")
            return scope, {}
        if isinstance(source, Indicator):
            number = self.program.indicators[self.stage.steps[0].view, source]
            keys, payloads = f"f{number}", f"fw{number}"
        else:
            assert isinstance(source, View)
            keys, payloads = f"d{self.program.views[source]}", f"b{self.program.views[source]}"
        out.line(f"s0 = {out.array(keys)}[r]")
        out.line(f"delta = {out.array(payloads)}[r]")
        space = self.program.space(source)
        self._fetch_ahead(source, keys)
        values = out.array(f"k{space.number}")
        scope = {v: self._bind(v, f"{values}[s0, {i}]") for i, v in enumerate(space.variables)}
        return scope, {frozenset(source.keys): "s0"}

    def _fetch_ahead(self, source: Source, keys: str) -> None:
        """Payloads of the siblings that a later row will be joined with are fetched while this one is worked
        on: keys come in any order, so each would have to be waited for."""
        step = self.stage.steps[0]
        same = [s for s in step.siblings if not isinstance(s, Indicator) and set(s.keys) == set(source.keys)]
        if same:
            with self.out.block(f"if r + {AHEAD} < stop:"):
                later = self.out.named("s", f"{keys}[r + {AHEAD}]")
                for sibling in same:
                    self._fetch(sibling, later)

    def _fetch(self, source: Source, slot: str) -> None:
        stored = self.out.array(f"p{self.program.stored[source]}")
        self.out.line(f"ahead({stored}, {slot}, {self.program.width(source)})")

    def _kept(self, leaf: Leaf, scope: Scope) -> str:
        """Adds a row to its relation, where that is stored; the number of its key."""
        slot = self._added(leaf, scope)
        stored = self.out.array(f"p{self.program.stored[leaf]}")
        for i in range(self.program.width(leaf)):
            self.out.line(f"{stored}[{slot}, {i}] += delta")
        return slot

    def _bind(self, variable: str, value: str) -> str:
        return self.out.named(f"v{self.program.number(variable)}", value)

    def _column(self, variable: str) -> str:
        """A column of the batch, as integers."""
        return f"{self.out.array('C')}[r, {self.program.columns_of(self._relation).index(variable)}]"

    # --- joins ---

    def _through(self, number: int, delta: Row, scope: Scope, slots: Mapping[frozenset[str], str]) -> None:
        """Joins a change with its siblings at a step, multiplies, and goes on to the next step or gathers."""
        step = self.stage.steps[number]
        self._join(_Here(number, (delta,), step.siblings, scope, slots))

    def _join(self, here: _Here) -> None:
        out = self.out
        if not here.left:
            self._multiply(here)
            return
        found = next((s for s in here.left if set(s.keys) <= set(here.scope)), None)
        if found is not None:
            slot = here.slots.get(frozenset(found.keys)) or self._found(found, here.scope)
            with out.block(f"if {slot} >= 0:"):
                self._with(found, slot, here.having(found, slot))
            return
        ways = self._iterations(here.left, here.scope)
        if here.choosing and len(ways) > 1:  # by what is shorter for this row
            one, other = (self._counted(way, here.scope) for way in ways)
            with out.block(f"if {one} <= {other}:"):
                self._iterate(ways[0], here)
            with out.block("else:"):
                self._iterate(ways[1], here)
        else:
            self._iterate(ways[0], here)

    def _found(self, source: Source, scope: Scope) -> str:
        """The number of a key whose variables are all bound, or -1."""
        out, space = self.out, self.program.space(source)
        keys = "".join(f", {scope[v]}" for v in space.variables)
        t, k = out.array(f"t{space.number}"), out.array(f"k{space.number}")
        return out.named("s", f"find{space.number}({t}, {k}{keys})")

    def _iterations(self, left: Sequence[Source], scope: Scope) -> list[Source]:
        """The sibling to iterate over next, the one with most variables bound; or two, where each is looked
        up after the other: then the shorter is better, as worst-case optimal joins do it."""
        some = sorted(left, key=lambda s: -len(set(s.keys) & set(scope)))
        first = some[0]
        for second in some[1:]:
            bound = all(set(s.keys) & set(scope) for s in (first, second))
            if bound and set(first.keys) | set(scope) == set(second.keys) | set(scope):
                return [first, second]
        return [first]

    def _group(self, source: Source, scope: Scope) -> tuple[str, str]:
        """The index of a source by what is bound, and the number of the group there that goes with it."""
        out, space = self.out, self.program.space(source)
        index = space.index(frozenset(source.keys) & frozenset(scope))
        x = f"x{space.number}_{index}"
        keys = "".join(f", {scope[v]}" for v in space.indexes[index])
        t, k = out.array(f"{x}t"), out.array(f"{x}k")
        return x, out.named("g", f"findx{space.number}_{index}({t}, {k}{keys})")

    def _counted(self, source: Source, scope: Scope) -> str:
        """How many keys of a source go with what is bound."""
        x, group = self._group(source, scope)
        return self.out.named("count", f"{self.out.array(f'{x}c')}[{group}] if {group} >= 0 else 0")

    def _iterate(self, source: Source, here: _Here) -> None:
        """All keys of a source that go with what is bound."""
        out, space = self.out, self.program.space(source)
        keys = out.array(f"k{space.number}")
        slot = out.fresh("s")

        def body() -> None:
            new = {v: i for i, v in enumerate(space.variables) if v not in here.scope}
            scope = {**here.scope, **{v: self._bind(v, f"{keys}[{slot}, {i}]") for v, i in new.items()}}
            self._with(source, slot, replace(here.having(source, slot), scope=scope, choosing=False))

        if not set(source.keys) & set(here.scope):
            with out.block(f"for {slot} in range({out.array(f'n{space.number}')}[0]):"):
                body()
            return
        x, group = self._group(source, here.scope)
        after = out.named("after", f"{out.array(f'{x}h')}[{group}] if {group} >= 0 else -1")
        with out.block(f"while {after} >= 0:"):
            out.line(f"{slot} = {after}")
            out.line(f"{after} = {out.array(f'{x}g')}[{slot}]")
            body()

    def _with(self, source: Source, slot: str, here: _Here) -> None:
        """Goes on with a sibling's payload at hand, unless it is zero."""
        out = self.out
        if isinstance(source, Indicator):
            view = self.stage.steps[here.step].view
            present = out.array(f"e{self.program.indicators[view, source]}")
            with out.block(f"if {present}[{slot}] != 0:"):
                self._join(here)
            return
        row = out.named("row", f"{out.array(f'p{self.program.stored[source]}')}[{slot}]")
        several = f" or is_any({row})" if self.program.width(source) > 1 else ""
        with out.block(f"if {row}[0] != 0{several}:"):
            self._join(replace(here, rows=(*here.rows, Row(source, row))))

    def _bound(self, scope: Scope) -> str | None:
        """An upper bound of how many rows come out of one: nothing where there is one at most. What is
        iterated over first is counted, further ones are as long as the longest."""
        out = self.out
        factors: list[str] = []
        for step in self.stage.steps:
            left, bound = list(step.siblings), dict(scope)
            while left:
                found = next((s for s in left if set(s.keys) <= set(bound)), None)
                if found is None:
                    ways = self._iterations(left, bound)
                    found, space = ways[0], self.program.space(ways[0])
                    by = frozenset(found.keys) & frozenset(bound)
                    if not by:
                        factors.append(f"{out.array(f'n{space.number}')}[0]")
                    elif factors:
                        factors.append(f"{out.array(f'x{space.number}_{space.index(by)}m')}[0]")
                    else:
                        counts = [self._counted(way, scope) for way in ways]
                        factors.append(counts[0] if len(counts) == 1 else f"min({', '.join(counts)})")
                left.remove(found)
                bound |= dict.fromkeys(found.keys, "")
            scope = {v: bound[v] for v in step.view.keys}
        return " * ".join(factors) if factors else None

    # --- payloads ---

    def _added(self, source: Source, scope: Scope) -> str:
        """The number of a key, which is given one if it has none."""
        space = self.program.space(source)
        return self.out.named("s", added(self.out, space.number, [scope[v] for v in space.variables]))

    def _multiply(self, here: _Here) -> None:
        """The product of payloads at a view: into the row that is gathered for its key, or into scratch."""
        out, view = self.out, self.stage.steps[here.step].view
        number = self.program.views[view]
        if here.step == len(self.stage.steps) - 1:
            slot = here.slots.get(frozenset(view.keys)) or self._added(view, here.scope)
            mark, slots, payload = (out.array(f"{a}{number}") for a in "mdb")
            row = out.named("j", f"{mark}[{slot}]")
            with out.block(f"if {row} < 0:"):
                out.line(f"{row} = nd")
                out.line("nd += 1")
                out.line(f"{mark}[{slot}] = {row}")
                out.line(f"{slots}[{row}] = {slot}")
                out.line(f"{payload}[{row}, :] = 0")
                if view in self.program.stored:  # what is gathered is added to it in the end
                    self._fetch(view, slot)
            self._product(view, here, out.named("o", f"{payload}[{row}]"))
            return
        target = f"scratch{number}"
        self.scratch[target] = self.program.width(view)
        out.line(f"{target}[:] = 0")
        self._product(view, here, target)
        scope = {v: here.scope[v] for v in view.keys}
        known = {keys: slot for keys, slot in here.slots.items() if keys <= set(view.keys)}
        self._through(here.step + 1, Row(view, target), scope, known)

    def _product(self, view: View, here: _Here, target: str) -> None:
        if isinstance(self.program.ring, Sums):
            self._componentwise(self.program.ring, view, here, target)
        else:
            self._cofactors(self.program.ring, view, here, target)

    def _value(self, variable: str, scope: Scope) -> str:
        """A variable's value as a number: of a column of the batch, or of a key."""
        if variable not in scope:
            return f"{self.out.array('L')}[r, {self.program.lifts_of(self._relation).index(variable)}]"
        key = scope[variable]
        if self._exact:
            return key
        number = self.program.number(variable)
        values, coded = self.out.array(f"lut{number}"), self.out.array(f"coded{number}")
        return f"({values}[{key}] if {coded}[0] else float({key}))"

    @staticmethod
    def _number(row: Row, i: int) -> str:
        """One number of a payload; the payload of a relation's row is its multiplicity, for all of them."""
        single = isinstance(row.source, Indicator) or (isinstance(row.source, Leaf) and row.at == "delta")
        return row.at if single else f"{row.at}[{i}]"

    def _componentwise(self, ring: Sums, view: View, here: _Here, target: str) -> None:
        out = self.out
        values = {v: self._bind(v, self._value(v, here.scope)) for v in self.program.lifted(view)}
        for i, product in enumerate(ring.products):
            factors = [self._number(row, i) for row in here.rows]
            factors += [values[v] for v in product if v in values]
            term = out.named("term", " * ".join(factors))
            if self._exact:
                sizes = " * ".join(f"abs(float({f}))" for f in factors)
                with out.block(f"if {sizes} + abs(float({target}[{i}])) > {LIMIT}:"):
                    out.line("bad[0] = 1")
            out.line(f"{target}[{i}] += {term}")

    def _cofactors(self, ring: Cofactor, view: View, here: _Here, target: str) -> None:
        """Multiplies by a function of the view's own (products.py), to which all ways to the view come."""
        number = self.program.views[view]
        at = {row.source: row.at for row in here.rows}
        counts = [self._number(row, 0) for row in here.rows if not isinstance(row.source, View)]
        given = [target, " * ".join(counts) or "1.0"]
        given += [at[c] for c in view.children if isinstance(c, View)]
        lifted = self.program.lifted(view)
        continuous = [v for v in lifted if v not in ring.categories]
        if continuous and all(v not in here.scope for v in continuous):
            start = self.program.lifts_of(self._relation).index(continuous[0])  # they lie side by side
            given.append(f"{self.out.array('L')}[r, {start} : {start + len(continuous)}]")
        elif continuous:
            name = f"lifted{number}"
            self.scratch[name] = len(continuous)
            for i, v in enumerate(continuous):
                self.out.line(f"{name}[{i}] = {self._value(v, here.scope)}")
            given.append(name)
        aside = scaled_columns(self.program, ring, view)
        if aside:
            self.scratch[f"z{number}"] = aside
            given.append(f"z{number}")
        given += [here.scope.get(v) or self._column(v) for v in lifted if v in ring.categories]
        self.out.line(f"multiply{number}({', '.join(given)})")


def added(out: Writer, space: int, keys: Sequence[str]) -> str:
    """The call that finds a key of a space or adds it. Which indexes the space has is known when all stages
    are written: a mark stands for their arrays."""
    arrays = [out.array(f"{a}{space}") for a in "tkn"]
    return f"add{space}({', '.join([*arrays, *keys])}{mark_of(space)})"


def mark_of(space: int) -> str:
    """Stands for the arrays of a space's indexes."""
    return f"@{space}@"
