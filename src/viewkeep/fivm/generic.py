"""View trees over any ring, in memory: keys in dictionaries, payloads added and multiplied by the ring.

This runtime is for generality and serves as the reference; the compiled one is for speed. A change of a
relation goes from its leaf to the root (F-IVM, figure 4): at each view it is joined with the stored siblings,
and added to the view if that is stored. Changes are all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from viewkeep.errors import Unsupported
from viewkeep.fivm.decomposition import decompose, pays
from viewkeep.fivm.factors import Product, advanced, expanded
from viewkeep.fivm.incoming import Rows, changing, instances, weighed
from viewkeep.fivm.laws import lifted
from viewkeep.fivm.plans import Plan, needed_indexes, plans, product_ranks, run
from viewkeep.fivm.query import Relation
from viewkeep.fivm.rings import Integers, Lift, P, Ring, is_commutative, named, own_lifts
from viewkeep.fivm.storage import Key, Stored, Undo, collected, picker, take_back
from viewkeep.fivm.tree import Indicator, Leaf, Source, Step, View, ViewTree, affecting

Label = tuple[str, ...]

# fewer rows go up faster as they are than it takes to look for their factors
WORTH_DECOMPOSING = 16


@dataclass(frozen=True)
class _Move:
    """A step of a path with its plans; labels say where the sources and the view are stored."""

    step: Step
    plans: tuple[Plan, ...]
    sources: tuple[Label, ...]
    target: Label


def label(source: Source, view: View | None = None) -> Label:
    """Where a source is stored. Each occurrence of an indicator is stored for itself, in the view that it is
    in: while one has changed and the next has not, both must be as they are said to be."""
    if isinstance(source, Indicator):
        assert view is not None
        return ("indicator", view.name, source.name)
    return ("leaf" if isinstance(source, Leaf) else "view", source.name)


class GenericRuntime(Generic[P]):
    """The stored views of a tree, over a ring. `lifts` say what values of bound variables are in the ring, 1
    where there is none; they go before lifts that the ring itself has.

    `keep` names more sources to store than maintenance needs; `seen`, which keeps sums and products, is what
    a view sees of the payloads of those below it, all of them by default. Both serve factorized results.
    """

    def __init__(
        self,
        tree: ViewTree,
        ring: Ring[P] | type[Ring[P]],
        lifts: Mapping[str, Lift[P]] | None = None,
        *,
        keep: Collection[str] = (),
        seen: Callable[[P], P] | None = None,
    ) -> None:
        self.tree = tree
        self.ring: Ring[P] = ring() if isinstance(ring, type) else ring
        self._commutative = is_commutative(self.ring)
        self._seen: Callable[[P], P] = seen or (lambda payload: payload)
        self.lifts = self._known_lifts(lifts or {})
        self._kept = {label(s, v): s for v, s in self._to_store(set(keep))}
        self._indexes: dict[Label, set[tuple[str, ...]]] = {}
        self._paths = {name: self._compiled(name) for name in tree.updatable}
        self._state: dict[Label, Stored[P]] = {}
        # for indicators: how many rows of a relation have each value, and its rows where its leaf has not
        self._counts: dict[Label, Stored[int]] = {}
        self._rows: dict[str, Stored[P]] = {}
        self.load({})

    # --- what is stored, and how changes go ---

    def _known_lifts(self, lifts: Mapping[str, Lift[P]]) -> dict[str, Callable[[Any], P]]:
        query = self.tree.query
        for variable in lifts:
            if variable not in query.bound:
                kind = "free" if variable in query.free else "no variable of the query"
                raise Unsupported(
                    f"{variable} has a lift, and is {kind}", hint=f"lift: {', '.join(query.bound)}"
                )
        own = {v: lift for v, lift in own_lifts(self.ring).items() if v in query.bound}
        known = {**own, **lifts}
        if known and not self._commutative:
            raise Unsupported(
                f"the product of {named(self.ring)} is not commutative, and {next(iter(known))} has a lift",
                hint="a view tree would change its place in the product; give the values as payloads of rows",
            )
        return {v: partial(lifted, self.ring, v, lift) for v, lift in known.items()}

    def _to_store(self, keep: set[str]) -> Iterator[tuple[View, Source]]:
        tree = self.tree
        yield tree.root, tree.root
        for view in tree.views():
            for number, source in enumerate(view.sources):
                others = {r for s in Step(view, number).siblings for r in affecting(s)}
                if others & tree.updatable or source.name in keep:
                    yield view, source

    def _compiled(self, relation: str) -> tuple[tuple[_Move, ...], ...]:
        return tuple(tuple(self._move(step) for step in way) for way in self.tree.paths(relation))

    def _move(self, step: Step) -> _Move:
        view = step.view
        choices = plans(view, step.entering, self._ranks(view))
        labels = tuple(label(source, view) for source in view.sources)
        for number, keys in needed_indexes(choices):
            self._indexes.setdefault(labels[number], set()).add(keys)
        return _Move(step, choices, labels, label(view))

    def _ranks(self, view: View) -> tuple[int, ...] | None:
        return None if self._commutative else product_ranks(view, self.tree.query)

    # --- loading ---

    def load(self, tables: Mapping[str, Rows], *, payloads: bool = False) -> None:
        """Replaces all contents by those of tables; one that is not named is empty. Rows are pairs of a tuple
        and how often it is there, or of a tuple and its payload (see `update`)."""
        given: dict[str, dict[Key, P]] = {}
        for table, rows in tables.items():
            rows = rows if isinstance(rows, Mapping) else list(rows)
            for relation in instances(self.tree.query, table):
                given[relation.name] = weighed(relation, self.ring, rows, payloads)
        state, counts, members = self._state, self._counts, self._rows
        self._state, self._counts, self._rows = {}, {}, {}
        try:
            root = self._evaluated(self.tree.root, given)
            self._store(label(self.tree.root), root)
        except BaseException:
            self._state, self._counts, self._rows = state, counts, members
            raise

    def _evaluated(self, view: View, given: Mapping[str, dict[Key, P]]) -> Stored[P]:
        """The contents of a view from those below it."""
        contents: list[Stored[P]] = []
        for source in view.sources:
            if isinstance(source, View):
                found = self._evaluated(source, given)
            elif isinstance(source, Leaf):
                found = self._filled(source.keys, given.get(source.name, {}))
            else:
                found = self._indicated(source, view, given.get(source.relation.name, {}))
            self._store(label(source, view), found)
            # the same rows, with indexes that are needed for now only
            once = Stored(source.keys, self.ring)
            once.rows = found.rows
            contents.append(once)
        first = min(range(len(view.children)), key=lambda i: len(contents[i].rows))
        choices = plans(view, first, self._ranks(view))
        for number, keys in needed_indexes(choices):
            contents[number].index(keys)
        rows = run(choices, contents[first].rows, contents, self.ring, self.lifts, self._seen)
        return self._filled(view.keys, rows)

    def _filled(self, keys: Sequence[str], rows: Mapping[Key, P]) -> Stored[P]:
        stored = Stored(keys, self.ring)
        stored.fill(rows.items())
        return stored

    def _indicated(self, source: Indicator, view: View, rows: dict[Key, P]) -> Stored[P]:
        name = source.relation.name
        part = picker([source.relation.schema.index(v) for v in source.keys])
        count: Stored[int] = Stored(source.keys, Integers())
        count.fill((part(key), 1) for key in rows)
        if name in self.tree.updatable:
            self._counts[label(source, view)] = count
            if name not in self._rows and ("leaf", name) not in self._kept:
                self._rows[name] = self._filled(source.relation.schema, rows)
        return self._filled(source.keys, dict.fromkeys(count.rows, self.ring.one))

    def _store(self, where: Label, stored: Stored[P]) -> None:
        if where in self._kept:
            for keys in self._indexes.get(where, ()):
                stored.index(keys)
            self._state[where] = stored

    # --- changes ---

    def update(self, table: str, rows: Rows, *, payloads: bool = False) -> None:
        """Changes a table by rows, each with how often it comes in (negative: goes), or with a payload: what
        is no integer is one, and with `payloads` integers are too."""
        self.apply({table: rows}, payloads=payloads)

    def apply(self, changes: Mapping[str, Rows], *, payloads: bool = False) -> None:
        """Changes several tables, one after the other, all or none."""
        with self._all_or_none() as undo:
            for table, rows in changes.items():
                rows = rows if isinstance(rows, Mapping) else list(rows)
                for relation in changing(self.tree, table):
                    delta = weighed(relation, self.ring, rows, payloads)
                    may = self._commutative and len(delta) >= WORTH_DECOMPOSING
                    factors = decompose(relation.schema, delta, self.ring) if may else ()
                    if pays(factors, len(delta)):
                        self._change_by_product(relation, Product(factors), undo)
                    else:
                        self._change(relation, delta, undo)

    def update_product(self, table: str, *products: Product[P]) -> None:
        """Changes a table by a sum of products of factors over disjoint variables, which are propagated
        factor by factor (section 5). Variables are named as in the table's first relation."""
        if not self._commutative:
            raise Unsupported(
                f"the product of {named(self.ring)} is not commutative, so factors cannot be taken apart",
                hint="use update with the rows of the change",
            )
        with self._all_or_none() as undo:
            first, *more = changing(self.tree, table)
            for relation in (first, *more):
                for given in products:
                    given.check(first)
                    names = dict(zip(first.schema, relation.schema, strict=True))
                    self._change_by_product(relation, given.renamed(names).of(self.ring), undo)

    @contextmanager
    def _all_or_none(self) -> Iterator[Undo]:
        undo: Undo = []
        try:
            yield undo
        except BaseException:
            take_back(undo)
            raise

    def _change(self, relation: Relation, delta: dict[Key, P], undo: Undo) -> None:
        with self._indicators_following(relation, delta, undo):
            self._walk(self._paths[relation.name][0], delta, undo)

    @contextmanager
    def _indicators_following(self, relation: Relation, delta: Mapping[Key, P], undo: Undo) -> Iterator[None]:
        """Lets a change of a relation be followed by changes of its indicators, where a value of one comes or
        goes (appendix B)."""
        paths = self._paths[relation.name][1:]
        if not paths:
            yield
            return
        apart = self._rows.get(relation.name)
        rows = apart or self._state["leaf", relation.name]
        there = {key for key in delta if key in rows.rows}
        yield
        if apart:
            apart.add(delta, undo)
        changed = [(key, (key in rows.rows) - (key in there)) for key in delta]
        for path in paths:
            entering = path[0].step.source
            part = picker([relation.schema.index(v) for v in entering.keys])
            moved = collected(Integers(), ((part(key), by) for key, by in changed if by))
            count = self._counts[path[0].sources[path[0].step.entering]]
            before = {value for value in moved if value in count.rows}
            count.add(moved, undo)
            one = self.ring.one
            indicated: dict[Key, P] = {}
            for value in moved:
                if (value in count.rows) != (value in before):
                    indicated[value] = one if value in count.rows else self.ring.negate(one)
            self._walk(path, indicated, undo)

    def _walk(self, path: Sequence[_Move], delta: dict[Key, P], undo: Undo) -> None:
        entering = path[0].sources[path[0].step.entering]
        self._add(entering, delta, undo)
        for move in path:
            if not delta:
                return
            sources: list[Any] = [self._state.get(where) for where in move.sources]
            delta = run(move.plans, delta, sources, self.ring, self.lifts, self._seen)
            self._add(move.target, delta, undo)

    def _change_by_product(self, relation: Relation, change: Product[P], undo: Undo) -> None:
        path, *indicator_paths = self._paths[relation.name]
        leaf = label(path[0].step.source)
        listed: dict[Key, P] = {}
        if leaf in self._state or indicator_paths:
            listed = expanded(change.factors, relation.schema, self.ring)
        with self._indicators_following(relation, listed, undo):
            self._add(leaf, listed, undo)
            factors = change.factors
            for move in path:
                siblings = [self._state[at] for i, at in enumerate(move.sources) if i != move.step.entering]
                factors = advanced(factors, move.step.view, siblings, self.ring, self.lifts, self._seen)
                if not all(factor.rows for factor in factors):
                    break
                if move.target in self._state:
                    self._add(move.target, expanded(factors, move.step.view.keys, self.ring), undo)

    def _add(self, where: Label, delta: dict[Key, P], undo: Undo) -> None:
        if where in self._state:
            self._state[where].add(delta, undo)

    # --- what comes out ---

    def result(self) -> dict[Key, P]:
        """The groups of the query, each with its payload; a key has the order of the free variables."""
        return dict(self._state[label(self.tree.root)].rows)

    def view(self, name: str) -> dict[Key, P]:
        """The contents of a stored view or relation; of an indicator with its view: `∃R in V_ST@C`."""
        return dict(self.stored(name).rows)

    def stored(self, name: str) -> Stored[P]:
        """What is stored under a name."""
        for where, stored in self._state.items():
            if _shown(where) == name:
                return stored
        names = ", ".join(map(_shown, self._state))
        raise Unsupported(f"nothing is stored for {name}", hint=f"stored are: {names}")

    def sizes(self) -> dict[str, int]:
        """How many keys each stored view has."""
        return {_shown(where): len(stored.rows) for where, stored in self._state.items()}

    def memory(self) -> dict[str, int]:
        """About how many bytes each stored view takes, and what indicators are told by."""
        found = {_shown(where): stored.memory() for where, stored in self._state.items()}
        for where, count in self._counts.items():
            found[f"counts of {_shown(where)}"] = count.memory()
        for name, rows in self._rows.items():
            found[f"rows of {name}"] = rows.memory()
        return found


def _shown(where: Label) -> str:
    return f"{where[2]} in {where[1]}" if where[0] == "indicator" else where[1]
