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
Scope = Mapping[str, str]
"""Variables that are bound, and the names of their values."""


@dataclass(frozen=True)
class Row:
    """A payload at hand: a row of an array; without a `slot` an array of its own, or the one number that a
    leaf's row has."""

    source: Source
    array: str
    slot: str = ""

    @property
    def whole(self) -> str:
        return f"{self.array}[{self.slot}]" if self.slot else self.array

    def number(self, i: int) -> str:
        """One number of it."""
        return f"{self.array}[{self.slot}, {i}]" if self.slot else f"{self.array}[{i}]"


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
        self.entering = 0
        """Which of the peers, views with the same keys, what comes in is a change of."""
        self._early: dict[str, str] = {}
        """What was looked up before the join began, by the expression. A key that is added meanwhile has no
        payload in what is looked up, so it need not be found."""
        self._exact = program.ring.exact
        self._relation = stage.steps[0].source.relations[0]

    def write(self) -> None:
        """Writes the lines of the function's body."""
        out, view = self.out, self.stage.view
        number = self.program.views[view]
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
        self._enter(source, scope, slots)
        body, out.lines = out.lines, []
        out.depth = 1
        for array in self.scratch:
            out.array(array)
        if self.fans_out:
            out.line("made = 0")
        out.line("for r in range(start, stop):")
        out.lines += body
        gathered = [out.array(f"{a}{number}") for a in "md"]
        if view in self.program.stored:
            stored = out.array(f"p{self.program.stored[view]}")
            out.line(f"settle({', '.join(gathered)}, {out.array(f'b{number}')}, {stored}, nd, bad)")
        else:
            out.line(f"forget({', '.join(gathered)}, nd)")
        out.line("return stop, nd")

    # --- what comes in ---

    def _incoming(self, source: Source) -> tuple[dict[str, str], dict[frozenset[str], str]]:
        """Names the variables and the payload of what comes in: a row of the batch, a change of an indicator,
        or a row that an earlier stage gathered."""
        out = self.out
        if self.first and isinstance(source, Leaf):
            scope = {v: self._bind(self._column(v)) for v in self.program.keys_of(source.name)}
            out.line(f"delta = {out.array('w')}[r]")
            return scope, {}
        if isinstance(source, Indicator):
            number = self.program.indicators[self.stage.steps[0].view, source]
            out.line(f"s0 = {out.array(f'f{number}')}[r]")
            out.line(f"delta = {out.array(f'fw{number}')}[r]")
        else:
            assert isinstance(source, View)
            keys = out.array(f"d{self.program.views[source]}")
            out.line(f"s0 = {keys}[r]")
            self._fetch_ahead(source, keys)
        space = self.program.space(source)
        values = out.array(f"k{space.number}")
        scope = {v: self._bind(f"{values}[s0, {i}]") for i, v in enumerate(space.variables)}
        return scope, {frozenset(source.keys): "s0"}

    def _peers(self, source: View) -> list[tuple[View, str]]:
        """Of the views that what comes in is multiplied with, and itself, those with the same keys, in the
        order of their view; and the array of each. Which of them what comes in belongs to is told to the
        function when it is called, so that there is one for all of them."""
        same = [c for c in self.stage.steps[0].view.children if set(c.keys) == set(source.keys)]
        views = [c for c in same if isinstance(c, View)]
        self.entering = views.index(source)
        return [
            (c, f"b{self.program.views[c]}" if c == source else f"p{self.program.stored[c]}") for c in views
        ]

    def _enter(self, source: Source, scope: Scope, slots: Mapping[frozenset[str], str]) -> None:
        """Begins the join with what came in."""
        siblings = self.stage.steps[0].siblings
        if not isinstance(source, View):
            self._join(_Here(0, (Row(source, "delta"),), siblings, scope, slots))
            return
        rows = []
        depth = self.out.depth
        peers = self._peers(source)
        for i, (peer, array) in enumerate(peers):
            slot = self.out.named("s", f"pick(which, {i}, r, s0)") if len(peers) > 1 else "r"
            rows.append(Row(peer, self.out.array(array), slot))
            self._unless_zero(rows[-1])
        left = tuple(s for s in siblings if s not in [peer for peer, _ in peers])
        self._join(_Here(0, tuple(rows), left, scope, slots))
        self.out.depth = depth

    def _unless_zero(self, row: Row) -> None:
        """All that follows is for payloads other than zero."""
        is_one = self.program.width(row.source) == 1
        self.out.line(f"if {row.number(0)} != 0:" if is_one else f"if is_any({row.array}, {row.slot}):")
        self.out.depth += 1

    def _fetch_ahead(self, source: View, keys: str) -> None:
        """Payloads of the siblings that a later row will be joined with are fetched while this one is worked
        on: keys come in any order, so each would have to be waited for."""
        peers = self._peers(source)
        leaves = [s for s in self.stage.steps[0].siblings if isinstance(s, Leaf)]
        same = [s for s in leaves if set(s.keys) == set(source.keys)]
        if len(peers) > 1 or same:
            self.out.line("later = later_row(r, stop)")
            slot = self.out.named("s", f"{keys}[later]")
            for i, (peer, array) in enumerate(peers):
                if len(peers) > 1:
                    its = f"pick(which, {i}, later, {slot})"
                    self.out.line(f"ahead({self.out.array(array)}, {its}, {self.program.width(peer)})")
            for leaf in same:
                self._fetch(leaf, slot)

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

    def _bind(self, value: str) -> str:
        return self.out.named("v", value)

    def _column(self, variable: str) -> str:
        """A column of the batch, as integers."""
        return f"{self.out.array('C')}[r, {self.program.columns_of(self._relation).index(variable)}]"

    # --- joins ---

    def _join(self, here: _Here) -> None:
        """Joins a change with its siblings at a step, multiplies, and goes on to the next step or gathers."""
        if not here.left:
            self._multiply(here)
            return
        found = next((s for s in here.left if set(s.keys) <= set(here.scope)), None)
        if found is not None:
            known = here.slots.get(frozenset(found.keys))
            if known is not None:
                self._with(found, known, here.having(found, known))
                return
            slot = self._found(found, here.scope)
            with self.out.block(f"if {slot} >= 0:"):
                self._with(found, slot, here.having(found, slot))
            return
        ways = self._iterations(here.left, here.scope)
        if here.choosing and len(ways) > 1:
            self._iterate_shorter(ways[0], ways[1], here)
        else:
            self._iterate(ways[0], here)

    def _found(self, source: Source, scope: Scope) -> str:
        """The number of a key whose variables are all bound, or -1."""
        return self.out.named("s", self._finding(source, scope))

    def _finding(self, source: Source, scope: Scope) -> str:
        out, space = self.out, self.program.space(source)
        keys = "".join(f", {scope[v]}" for v in space.variables)
        t, k = out.array(f"t{space.number}"), out.array(f"k{space.number}")
        return f"find{space.number}({t}, {k}{keys})"

    def _iterations(self, left: Sequence[Source], scope: Scope) -> list[Source]:
        """The sibling to iterate over next, the one with most variables bound; or two, where each is looked
        up after the other: then the shorter is better, as worst-case optimal joins do it."""
        some = sorted(left, key=lambda s: -len(set(s.keys) & set(scope)))
        first = some[0]
        for second in some[1:]:
            bound = all(set(s.keys) & set(scope) for s in (first, second))
            if set(first.keys) == set(second.keys):
                continue  # as many of each
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
        return x, self._looked_up("g", f"findx{space.number}_{index}({t}, {k}{keys})")

    def _looked_up(self, stem: str, expression: str) -> str:
        return self._early.get(expression) or self.out.named(stem, expression)

    def _counted(self, source: Source, scope: Scope) -> str:
        """How many keys of a source go with what is bound."""
        x, group = self._group(source, scope)
        return self._looked_up("count", f"count_of({self.out.array(f'{x}c')}, {group})")

    def _iterate(self, source: Source, here: _Here) -> None:
        """All keys of a source that go with what is bound."""
        out, space = self.out, self.program.space(source)
        keys = out.array(f"k{space.number}")
        slot = out.fresh("s")

        def body() -> None:
            new = {v: i for i, v in enumerate(space.variables) if v not in here.scope}
            scope = {**here.scope, **{v: self._bind(f"{keys}[{slot}, {i}]") for v, i in new.items()}}
            self._with(source, slot, replace(here.having(source, slot), scope=scope, choosing=False))

        if not set(source.keys) & set(here.scope):
            with out.block(f"for {slot} in range({out.array(f'n{space.number}')}[0]):"):
                body()
            return
        x, group = self._group(source, here.scope)
        after = out.named("after", f"first_of({out.array(f'{x}h')}, {group})")
        with out.block(f"while {after} >= 0:"):
            out.line(f"{slot} = {after}")
            out.line(f"{after} = {out.array(f'{x}g')}[{slot}]")
            body()

    def _iterate_shorter(self, one: Source, other: Source, here: _Here) -> None:
        """All keys of two sources that go with what is bound and with each other: goes over the one that has
        fewer for this row, and looks up in the other."""
        out, sides = self.out, (one, other)
        slots = [out.fresh("s") for _ in sides]
        new = {v: out.fresh("v") for v in one.keys if v not in here.scope}
        scope = {**here.scope, **new}
        counts = [self._counted(source, here.scope) for source in sides]
        groups = [self._group(source, here.scope) for source in sides]
        first = out.named("first", f"{counts[0]} <= {counts[1]}")
        heads = [f"first_of({out.array(f'{x}h')}, {group})" for x, group in groups]
        after = out.named("after", f"{heads[0]} if {first} else {heads[1]}")
        with out.block(f"while {after} >= 0:"):
            for i, head in enumerate((f"if {first}:", "else:")):
                space = self.program.space(sides[i])
                with out.block(head):
                    out.line(f"{slots[i]} = {after}")
                    out.line(f"{after} = {out.array(f'{groups[i][0]}g')}[{slots[i]}]")
                    keys = out.array(f"k{space.number}")
                    for v, name in new.items():
                        out.line(f"{name} = {keys}[{slots[i]}, {space.variables.index(v)}]")
                    out.line(f"{slots[1 - i]} = {self._finding(sides[1 - i], scope)}")
            with out.block(f"if {slots[0]} >= 0:"), out.block(f"if {slots[1]} >= 0:"):
                known = {**here.slots, frozenset(other.keys): slots[1]}
                here = replace(here, scope=scope, slots=known, choosing=False)
                self._with(one, slots[0], here.having(one, slots[0]))

    def _with(self, source: Source, slot: str, here: _Here) -> None:
        """Goes on with a sibling's payload at hand, unless it is zero."""
        out = self.out
        if isinstance(source, Indicator):
            view = self.stage.steps[here.step].view
            present = out.array(f"e{self.program.indicators[view, source]}")
            with out.block(f"if {present}[{slot}] != 0:"):
                self._join(here)
            return
        row = Row(source, out.array(f"p{self.program.stored[source]}"), slot)
        self._unless_zero(row)
        self._join(replace(here, rows=(*here.rows, row)))
        out.depth -= 1

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
                        counts = [self._remembered(way, scope) for way in ways]
                        factors.append(counts[0] if len(counts) == 1 else f"min({', '.join(counts)})")
                left.remove(found)
                bound = {**dict.fromkeys(found.keys, ""), **bound}  # what has a name keeps it
            scope = {v: bound[v] for v in step.view.keys}
        return " * ".join(factors) if factors else None

    def _remembered(self, source: Source, scope: Scope) -> str:
        """Counts, and has the join find what was looked up for it."""
        at = len(self.out.lines)
        count = self._counted(source, scope)
        for line in self.out.lines[at:]:
            name, expression = line.strip().split(" = ", 1)
            self._early[expression] = name
        return count

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
            row = out.named("j", f"claimed({mark}, {slots}, {slot}, nd)")
            with out.block(f"if {row} == nd:"):
                out.line("nd += 1")
                out.line(f"clear({payload}, {row}, {self.program.width(view)})")
                if view in self.program.stored:  # what is gathered is added to it in the end
                    self._fetch(view, slot)
            self._product(view, here, Row(view, payload, row))
            return
        target = Row(view, f"scratch{number}")
        self.scratch[target.array] = self.program.width(view)
        out.line(f"clear({target.array}, 0, {self.program.width(view)})")
        self._product(view, here, target)
        scope = {v: here.scope[v] for v in view.keys}
        known = {keys: slot for keys, slot in here.slots.items() if keys <= set(view.keys)}
        siblings = self.stage.steps[here.step + 1].siblings
        self._join(_Here(here.step + 1, (target,), siblings, scope, known))

    def _product(self, view: View, here: _Here, target: Row) -> None:
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
        return f"value_of({values}, {coded}, {key})"

    @staticmethod
    def _number(row: Row, i: int) -> str:
        """One number of a payload; the payload of a relation's row is its multiplicity, for all of them."""
        return row.array if row.array == "delta" else row.number(i)

    def _componentwise(self, ring: Sums, view: View, here: _Here, target: Row) -> None:
        out = self.out
        values = {v: self._bind(self._value(v, here.scope)) for v in self.program.lifted(view)}
        for i, product in enumerate(ring.products):
            factors = [self._number(row, i) for row in here.rows]
            factors += [values[v] for v in product if v in values]
            term = out.named("term", " * ".join(factors))
            if self._exact:
                sizes = " * ".join(f"abs(float({f}))" for f in factors)
                with out.block(f"if {sizes} + abs(float({target.number(i)})) > {LIMIT}:"):
                    out.line("bad[0] = 1")
            out.line(f"{target.number(i)} += {term}")

    def _cofactors(self, ring: Cofactor, view: View, here: _Here, target: Row) -> None:
        """Multiplies by a function of the view's own (products.py), to which all ways to the view come."""
        number = self.program.views[view]
        at = {row.source: row.whole for row in here.rows}
        counts = [self._number(row, 0) for row in here.rows if not isinstance(row.source, View)]
        given = [target.whole, " * ".join(counts) or "1.0"]
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
