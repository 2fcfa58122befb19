"""Pass 1: every subview carries its IDs (idIVM section 4, table 1; retouching as in FORWARD appendix B).

    before: Project(name)        over Scan(devices, key did)
    after:  Project(name, did)   over Scan(devices, key did)      did is hidden from the user

Two operators can lose an ID. A projection can drop it; an equal column that it keeps will do in its place.
A union puts rows side by side whose IDs have nothing to do with each other, so each part gets a tag, and the
parts' IDs share columns of their types. An outer join needs a tag where all IDs of the padded side may be
null by themselves: a group whose key is null would else pass for a missing partner.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewkeep.algebra.expressions import column
from viewkeep.algebra.nodes import Column, Item, Node, OuterJoin, Project, UnionAll, rebuild, walk
from viewkeep.algebra.types import BOOLEAN, INT, Type


def infer_ids(plan: Node) -> Node:
    """The plan with the missing ID columns added to its projections, unions and outer joins."""
    names = _Names({name.lower() for node in walk(plan) for name in node.names})

    def retouch(node: Node) -> Node:
        if isinstance(node, Project):
            return _with_ids(node)
        if isinstance(node, UnionAll):
            return _tagged_union(node, names)
        if isinstance(node, OuterJoin):
            left = _told_from_padding(node.left, names) if node.full else node.left
            right = _told_from_padding(node.right, names)
            same = left is node.left and right is node.right
            return node if same else node.with_inputs([left, right])
        return node

    return rebuild(plan, retouch)


class _Names:
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def fresh(self, wanted: str) -> str:
        name, n = wanted, 1
        while name in self._taken:
            n += 1
            name = f"{wanted}_{n}"
        self._taken.add(name)
        return name


def _with_ids(node: Project) -> Project:
    missing = [name for name in node.input.ids if name not in node.kept]
    added = tuple(Item(node.input.by_name[name], column(name)) for name in missing)
    return replace(node, items=node.items + added) if added else node


def _tagged_union(node: UnionAll, names: _Names) -> UnionAll:
    slots: list[Column] = []
    placed: list[dict[str, str]] = []  # for each part: slot -> the ID that it holds
    for part in node.parts:
        own: dict[str, str] = {}
        for name in part.ids:
            kind = part.by_name[name].type
            slot = next((s for s in slots if s.type == kind and s.name not in own), None)
            if slot is None:
                slot = Column(names.fresh("id"), kind)
                slots.append(slot)
            own[slot.name] = name
        placed.append(own)
    tag = Column(names.fresh("part"), INT, nullable=False)
    width = len(node.fields)
    parts = []
    for number, (part, own) in enumerate(zip(node.parts, placed, strict=True)):
        items = [Item(c, column(c.name)) for c in part.columns[:width]]
        for slot in slots:
            given = Column(names.fresh(slot.name), slot.type, slot.nullable)
            items.append(Item(given, column(own[slot.name]) if slot.name in own else _null(slot.type)))
        mark = Column(names.fresh("part"), INT, nullable=False)
        items.append(Item(mark, exp.Literal.number(number)))
        parts.append(Project(part, tuple(items), (mark.name,)))
    key = (tag.name, *(s.name for s in slots))
    return UnionAll(tuple(parts), (*node.fields, *slots, tag), key)


def _told_from_padding(side: Node, names: _Names) -> Node:
    if any(not side.by_name[name].nullable for name in side.ids):
        return side
    tag = Column(names.fresh("there"), BOOLEAN, nullable=False)
    items = [Item(c, column(c.name)) for c in side.columns]
    return Project(side, (*items, Item(tag, exp.true())), (tag.name,))


def _null(kind: Type) -> exp.Expr:
    return exp.Cast(this=exp.Null(), to=kind.sql())
