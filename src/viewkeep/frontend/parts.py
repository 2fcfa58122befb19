"""Parts of a query that nothing here reads, refused: a clause that is left out gives another answer.

sqlglot reads more than Spark has, and keeps it in arguments of nodes. Those of SELECT are checked where it is
bound (select.py), and those with a word of their own to say where they are met; the rest is here.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.errors import Unsupported
from viewkeep.frontend.binding import Binding

_CUTS = frozenset({"order", "limit", "offset"})
_READ: dict[type[exp.Expr], frozenset[str]] = {
    exp.Subquery: frozenset({"this", "alias", "with_", "joins", "pivots", *_CUTS}),
    exp.SetOperation: frozenset(
        {"this", "expression", "with_", "distinct", "by_name", "side", "kind", "on", *_CUTS}
    ),
    exp.Table: frozenset(
        {"this", "db", "catalog", "alias", "joins", "pivots", "sample", "version", "laterals", "hints"}
    ),
    exp.Join: frozenset({"this", "on", "using", "side", "kind", "method"}),
    exp.Limit: frozenset({"this", "expression"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.CTE: frozenset({"this", "alias", "materialized"}),
    exp.Group: frozenset({"expressions", "all", "rollup", "cube", "grouping_sets"}),
}
_WORDS = {
    "sample": ("TABLESAMPLE", "filter by a column; a sample differs each time"),
    "limit_options": ("LIMIT ... PERCENT or WITH TIES", "give a number of rows, or use RANK and QUALIFY"),
    "laterals": ("LATERAL VIEW", "join with a table"),
}


def refuse_unread_parts(binding: Binding, query: exp.Expr) -> None:
    """Raises for the first part of a query that would be passed over."""
    for node in query.walk():
        read = next((parts for kind, parts in _READ.items() if isinstance(node, kind)), None)
        unread = [key for key, part in node.args.items() if part and read is not None and key not in read]
        if unread:
            what, instead = _WORDS.get(unread[0], (unread[0].strip("_").upper(), "leave it out"))
            raise binding.fail(Unsupported, node, f"{what} is not supported in a view", instead)
