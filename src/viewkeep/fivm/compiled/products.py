"""The product of the regression ring, as source: a function for each view."""

from __future__ import annotations

from collections.abc import Callable

from viewkeep.fivm.compiled.layout import Layout
from viewkeep.fivm.compiled.program import Program
from viewkeep.fivm.compiled.rings import Cofactor
from viewkeep.fivm.compiled.writer import Function, Writer
from viewkeep.fivm.tree import View

# of so many lifted values the squares are runs of instructions; of more they are loops
WRITTEN_OUT = 32


def multiply_cofactors(program: Program, ring: Cofactor, view: View) -> Function:
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
            out.line(f"run(o, {at}, {weight}, {source}, {start}, {size})")

    out.line(f"whole = {all_but()}")
    out.line("o[0] += whole")
    places = {v: sum(ring.width(u) for u in lifted[: lifted.index(v)]) for v in lifted}
    for i in range(own):
        size = layout.factors[i].size
        if not size:
            continue
        out.line(f"w{i} = {all_but(i)}")
        scaled(layout.sums_of(i), f"w{i}", f"a{i}", 1, size)
        scaled(layout.squares_of(i), f"w{i}", f"a{i}", 1 + size, layout.factors[i].squares)
        _rows(out, layout, i, own, len(values), all_but)
        if categories:
            with out.block(f"for i in range({size}):"):
                out.line(f"at = {layout.products_of(i, own)} + i * {layout.after(i)}")
                for n, v in enumerate(categories):
                    out.line(f"o[at + {places[v]} + k{n}] += w{i} * a{i}[1 + i]")
    sums = layout.sums_of(own)
    if categories or len(values) > WRITTEN_OUT:
        out.line(f"at = {layout.squares_of(own)}")
    if values and not categories and len(values) <= WRITTEN_OUT:
        out.line(f"run(o, {sums}, whole, x, 0, {len(values)})")
        out.line(f"squares(o, {layout.squares_of(own)}, whole, x, {len(values)})")
    elif values:
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
    given += ["z"] if scaled_columns(program, ring, view) else []
    given += [f"k{n}" for n in range(len(categories))]
    return Function("product", f"multiply{program.views[view]}", tuple(given), tuple(out.lines))


def scaled_columns(program: Program, ring: Cofactor, view: View) -> int:
    """How many numbers the product needs to put aside: the columns that follow the first factor, scaled. Of
    categories there is only the one that a row has, which is added by itself."""
    own = sum(isinstance(c, View) for c in view.children)
    categories = sum(ring.width(v) for v in program.lifted(view) if v in ring.categories)
    return max((program.layouts[view].after(i) - categories for i in range(own)), default=0)


def _rows(out: Writer, layout: Layout, i: int, own: int, values: int, all_but: Callable[..., str]) -> None:
    """The products of a factor's sums with those of all factors after it. These are scaled once and put
    aside in `z`, so that what is added for each column of the factor is one long run, which the compiler
    vectorizes."""
    at = 0
    for k in range(i + 1, own + 1):
        size = layout.factors[k].size if k < own else values
        if not size:
            continue
        source = f"a{k}, 1" if k < own else "x, 0"
        out.line(f"put(z, {at}, {all_but(i, k)}, {source}, {size})")
        at += size
    if at:
        start = layout.products_of(i, i + 1)
        out.line(f"rows(o, {start}, {layout.after(i)}, a{i}, 1, {layout.factors[i].size}, z, {at})")
