"""View trees over arrays: matrix chains and their kin, with changes as sums of outer products (F-IVM, 6.1).

A relation over indexes 0 to n-1 is an array with an axis for each variable, and a view is a sum over a
product of arrays. A change u ⊗ v of a matrix goes up as vectors: each sibling is multiplied with the factors
that it shares variables with, which for matrices takes n² instead of n³ operations. Stored views take outer
products.

All factors of a change have one more axis, its rank: a change of rank r is the sum of products over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.fivm.incoming import changing
from viewkeep.fivm.query import Relation
from viewkeep.fivm.tree import Source, Step, View, ViewTree

Array = NDArray[Any]
# the variables of a factor, without the rank, which is its first axis
Part = tuple[tuple[str, ...], Array]
RANK = ""


class DenseRuntime:
    """The stored views of a tree as arrays. `lifts`: what each value of a bound variable counts, 1 where not
    said, as a vector."""

    def __init__(
        self, tree: ViewTree, arrays: Mapping[str, Array], lifts: Mapping[str, Array] | None = None
    ) -> None:
        if any(view.indicators for view in tree.views()):
            raise Unsupported(
                "arrays have no indicator projections", hint="use view_tree(order, indicators=False)"
            )
        self.tree = tree
        self.sizes: dict[str, int] = {}
        given = {r.name: self._checked(r, arrays) for r in tree.query.relations}
        self.lifts = {v: self._lift(v, vector) for v, vector in (lifts or {}).items()}
        self._kept = {source.name for source in tree.stored()}
        self._state: dict[str, Array] = {}
        self._state[tree.root.name] = self._evaluated(tree.root, given)

    def _checked(self, relation: Relation, arrays: Mapping[str, Array]) -> Array:
        found = arrays.get(relation.source, arrays.get(relation.name))
        if found is None:
            raise Unsupported(f"{relation.name} has no array", hint="give one for each relation")
        array = np.array(found, dtype=float)  # a copy, which nobody else changes
        if array.ndim != len(relation.schema):
            raise TypeMismatch(
                f"{relation} has {len(relation.schema)} variables, and its array {array.ndim} axes",
                hint="give an array with one axis for each variable",
            )
        for variable, size in zip(relation.schema, array.shape, strict=True):
            if self.sizes.setdefault(variable, size) != size:
                raise TypeMismatch(
                    f"{variable} has {size} values in {relation.name} and {self.sizes[variable]} elsewhere",
                    hint="let arrays agree in the axes of a variable",
                )
        return self._finite(array, relation.name)

    def _lift(self, variable: str, vector: Array) -> Array:
        if variable not in self.tree.query.bound:
            raise Unsupported(f"{variable} has a lift, and is not summed", hint="lift bound variables")
        array = np.array(vector, dtype=float)
        if array.shape != (self.sizes[variable],):
            raise TypeMismatch(
                f"the lift of {variable} has the shape {array.shape}, not ({self.sizes[variable]},)",
                hint="give a number for each of its values",
            )
        return self._finite(array, f"the lift of {variable}")

    def _finite(self, array: Array, what: str) -> Array:
        if not np.isfinite(array).all():
            raise TypeMismatch(
                f"{what} has numbers that are not finite", hint="replace them, or leave them out"
            )
        return array

    def _evaluated(self, view: View, given: Mapping[str, Array]) -> Array:
        operands = []
        for source in view.sources:
            array = self._evaluated(source, given) if isinstance(source, View) else given[source.name]
            if source.name in self._kept:
                self._state[source.name] = array
            operands.append((source.keys, array))
        return self._product([*operands, *self._lifted(view)], view.keys)

    def _lifted(self, view: View) -> list[tuple[tuple[str, ...], Array]]:
        return [((v,), self.lifts[v]) for v in view.summed if v in self.lifts]

    def _product(self, operands: Sequence[tuple[Sequence[str], Array]], keys: Sequence[str]) -> Array:
        """A product of arrays, with all variables summed but the keys, in pairs of small cost."""
        axes = {v: n for n, v in enumerate(dict.fromkeys(v for names, _ in operands for v in names))}
        arguments: list[Any] = []
        for names, array in operands:
            arguments += [array, [axes[v] for v in names]]
        result: Array = np.einsum(*arguments, [axes[v] for v in keys], optimize="greedy")
        return result

    def update(self, relation: str, *products: Sequence[Array]) -> None:
        """Changes a relation, or the table of several, by a sum of products. A product is a list of arrays
        that take the variables of the relation in their order, each as many as it has axes: `[u, v]` for a
        matrix, or `[matrix]`. All or nothing is changed."""
        instances = changing(self.tree, relation)
        checked = [self._parts(instances[0], product) for product in products]
        state = dict(self._state)
        for instance in instances:
            names = dict(zip(instances[0].schema, instance.schema, strict=True))
            for group in _stacked(checked):
                renamed = [(tuple(names[v] for v in keys), array) for keys, array in group]
                self._walk(instance, renamed, state)
        self._state = state

    def _parts(self, relation: Relation, product: Sequence[Array]) -> list[Part]:
        left, parts = list(relation.schema), []
        for factor in product:
            array = self._finite(np.asarray(factor, dtype=float), f"a factor of {relation.name}")
            own, left = tuple(left[: array.ndim]), left[array.ndim :]
            if array.shape != tuple(self.sizes[v] for v in own):
                shape = ", ".join(f"{v}: {self.sizes[v]}" for v in own)
                raise TypeMismatch(
                    f"a factor of {relation} has the shape {array.shape}, and its variables {shape}",
                    hint="give arrays that take the variables in their order",
                )
            parts.append((own, array[np.newaxis]))
        if left:
            raise TypeMismatch(
                f"a product of {relation} has no factor with {', '.join(left)}",
                hint="give arrays that take the variables in their order",
            )
        return parts

    def _walk(self, relation: Relation, parts: Sequence[Part], state: dict[str, Array]) -> None:
        path = self.tree.paths(relation.name)[0]
        self._add(path[0].source, parts, state)
        for step in path:
            parts = self._advanced(step, parts, state)
            self._add(step.view, parts, state)

    def _advanced(self, step: Step, parts: Sequence[Part], state: Mapping[str, Array]) -> list[Part]:
        """The change of a view, still a product: what is connected by variables is multiplied out."""
        view = step.view
        left: list[tuple[tuple[str, ...], Array, bool]] = [(keys, array, True) for keys, array in parts]
        left += [(source.keys, state[source.name], False) for source in step.siblings]
        left += [(keys, array, False) for keys, array in self._lifted(view)]
        found: list[Part] = []
        for group in _connected([keys for keys, _, _ in left]):
            members = [left[i] for i in group]
            ranked = any(of_change for _, _, of_change in members)
            operands = [((RANK, *keys) if ours else keys, array) for keys, array, ours in members]
            have = {v for keys, _, _ in members for v in keys}
            kept = tuple(v for v in view.keys if v in have)
            array = self._product(operands, (RANK, *kept) if ranked else kept)
            if not ranked:  # joined by no variable: the same for each rank
                rank = parts[0][1].shape[0]
                array = np.broadcast_to(array, (rank, *array.shape))
            found.append((kept, array))
        return found

    def _add(self, source: Source, parts: Sequence[Part], state: dict[str, Array]) -> None:
        if source.name in state:
            operands = [((RANK, *keys), array) for keys, array in parts]
            after = state[source.name] + self._product(operands, source.keys)
            state[source.name] = self._finite(after, f"{source.name} after the change")

    def result(self) -> Array:
        """The array of the query, with an axis for each free variable, in their order."""
        return self._state[self.tree.root.name].copy()

    def view(self, name: str) -> Array:
        """The array of a stored view or relation."""
        if name not in self._state:
            raise Unsupported(
                f"nothing is stored for {name}", hint=f"stored are: {', '.join(sorted(self._state))}"
            )
        return self._state[name].copy()


def _stacked(products: Sequence[list[Part]]) -> list[list[Part]]:
    """Products of the same variables as one with a rank."""
    groups: dict[tuple[tuple[str, ...], ...], list[list[Part]]] = {}
    for parts in products:
        groups.setdefault(tuple(keys for keys, _ in parts), []).append(parts)
    return [
        [(keys, np.concatenate([parts[i][1] for parts in same])) for i, keys in enumerate(schemas)]
        for schemas, same in groups.items()
    ]


def _connected(schemas: Sequence[tuple[str, ...]]) -> list[list[int]]:
    """The schemas that are connected by common variables; one without variables is by itself."""
    groups: list[tuple[set[str], list[int]]] = []
    for number, keys in enumerate(schemas):
        met = [g for g in groups if g[0] & set(keys)]
        joined = set(keys).union(*(names for names, _ in met)), [i for _, ids in met for i in ids] + [number]
        groups = [g for g in groups if g not in met] + [joined]
    return [ids for _, ids in groups]


def row_update(matrix: Array, row: int, new_row: Array) -> list[Array]:
    """The change of one row of a matrix, as a product."""
    matrix, new_row = np.asarray(matrix), np.asarray(new_row)
    at = np.zeros(matrix.shape[0])
    at[row] = 1.0
    return [at, new_row - matrix[row]]


def column_update(matrix: Array, column: int, new_column: Array) -> list[Array]:
    """The change of one column of a matrix, as a product."""
    return row_update(np.asarray(matrix).T, column, new_column)[::-1]
