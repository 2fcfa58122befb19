"""The product of the regression ring, as source: a function for each view."""

from __future__ import annotations

from itertools import combinations

from viewkeep.fivm.compiled.program import Program
from viewkeep.fivm.compiled.rings import Cofactor
from viewkeep.fivm.compiled.writer import Writer
from viewkeep.fivm.tree import View


def multiply_cofactors(program: Program, ring: Cofactor, view: View) -> str:
    """The product of definition 6.2 for any number of factors at once, added to `o`:

    c = Π c_i;  s_i scaled by the counts of all others;  Q_i likewise;  s_i s_jᵀ by the counts of all but
    those two. `w` is the product of what has no more than a count; `x` are the values that the view lifts,
    `k` numbers of categories.
    """
    out, layout = Writer(), program.layouts[view]
    views = [c for c in view.children if isinstance(c, View)]
    lifted = program.lifted(view)
    values = [v for v in lifted if v not in ring.categories]
    categories = [v for v in lifted if v in ring.categories]
    own = len(views)
    for i in range(own):
        out.line(f"c{i} = a{i}[0]")

    def all_but(*without: int) -> str:
        return " * ".join(["w", *(f"c{i}" for i in range(own) if i not in without)])

    def scaled(at: int, weight: str, source: str, start: int, size: int) -> None:
        if size:
            with out.block(f"for i in range({size}):"):
                out.line(f"o[{at} + i] += {weight} * {source}[{start} + i]")

    out.line(f"whole = {all_but()}")
    out.line("o[0] += whole")
    mine = layout.factors[own].size
    places = {v: sum(ring.width(u) for u in lifted[: lifted.index(v)]) for v in lifted}
    for i in range(own):
        size = layout.factors[i].size
        if not size:
            continue
        out.line(f"w{i} = {all_but(i)}")
        scaled(layout.sums_of(i), f"w{i}", f"a{i}", 1, size)
        scaled(layout.squares_of(i), f"w{i}", f"a{i}", 1 + size, layout.factors[i].squares)
        if not mine:
            continue
        with out.block(f"for i in range({size}):"):
            out.line(f"y = w{i} * a{i}[1 + i]")
            out.line(f"at = {layout.products_of(i, own)} + i * {mine}")
            if values:
                with out.block(f"for k in range({len(values)}):"):
                    out.line("o[at + k] += y * x[k]")
            for n, v in enumerate(categories):
                out.line(f"o[at + {places[v]} + k{n}] += y")
    for i, k in combinations(range(own), 2):
        rows, columns = layout.factors[i].size, layout.factors[k].size
        if rows and columns:
            out.line(f"both = {all_but(i, k)}")
            with out.block(f"for i in range({rows}):"):
                out.line(f"y = both * a{i}[1 + i]")
                with out.block(f"for k in range({columns}):"):
                    start = layout.products_of(i, k)
                    out.line(f"o[{start} + i * {columns} + k] += y * a{k}[1 + k]")
    sums = layout.sums_of(own)
    out.line(f"at = {layout.squares_of(own)}")
    if values:
        with out.block(f"for i in range({len(values)}):"):
            out.line("y = whole * x[i]")
            out.line(f"o[{sums} + i] += y")
            with out.block(f"for k in range(i, {len(values)}):"):
                out.line("o[at + k - i] += y * x[k]")
            out.line(f"at += {len(values)} - i")
            for n, v in enumerate(categories):
                out.line(f"o[at + k{n}] += y")
                out.line(f"at += {ring.width(v)}")
    for n, v in enumerate(categories):
        out.line(f"o[{sums + places[v]} + k{n}] += whole")
        for m, u in enumerate(categories[n + 1 :], start=n + 1):
            out.line(f"o[at + k{n} * {ring.width(u)} + k{m}] += whole")
            out.line(f"at += {ring.width(v) * ring.width(u)}")
    given = ["o", "w", *(f"a{i}" for i in range(own)), *(["x"] if values else [])]
    given += [f"k{n}" for n in range(len(categories))]
    number = program.views[view]
    head = f"def multiply{number}({', '.join(given)}):"
    return "\n".join(["@product", head, *out.lines, "", ""])
