"""SQL text -> statements. viewkeep's own statements are read here; all other SQL is left to sqlglot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from viewkeep.errors import Place, SyntaxProblem, ViewkeepError


class SparkSQL(Spark):
    """Spark's dialect since 4.0: a quote that is written twice stands for itself."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = [*Spark.Tokenizer.STRING_ESCAPES, "'", '"']


DIALECT = SparkSQL
_KEYWORDS: dict[type[exp.Expr], str] = {
    exp.CurrentDate: "CURRENT_DATE",
    exp.CurrentTimestamp: "CURRENT_TIMESTAMP",
    exp.CurrentTime: "CURRENT_TIME",
    exp.CurrentUser: "CURRENT_USER",
    exp.Localtimestamp: "LOCALTIMESTAMP",
}
# statements that manage an engine; what follows is written as each engine likes it
_ENGINES_OWN = ("ATTACH", "CALL", "CONVERT", "EXECUTE", "EXPLAIN", "EXPORT", "IMPORT", "INSTALL", "LOAD",
                "OPTIMIZE", "PREPARE", "REORG", "RESTORE", "SHOW", "VACUUM")  # fmt: skip
_OPTIONS_HINT = "CREATE MATERIALIZED VIEW name [WITH (option = 'value')] AS SELECT ..."


@dataclass(frozen=True)
class Word:
    """A token: its text, where it starts, and whether it was quoted as a name."""

    text: str
    start: int
    quoted: bool


@dataclass(frozen=True)
class Statement:
    """One statement: its own text, and the line of the whole text on which it starts."""

    text: str
    first_line: int = field(default=1, compare=False)


@dataclass(frozen=True)
class CreateView(Statement):
    name: str = ""
    query: str = ""
    query_start: int = 0
    options: dict[str, str] = field(default_factory=dict)
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class OnView(Statement):
    """REFRESH, EXPLAIN, VERIFY, OPTIMIZE, DROP or SHOW; no name means all views."""

    verb: str = ""
    name: str | None = None
    full: bool = False
    if_exists: bool = False


@dataclass(frozen=True)
class Plain(Statement):
    """Any other SQL, parsed."""

    tree: exp.Expr = field(default_factory=exp.Null)


def place_at(text: str, offset: int) -> Place:
    """The line and column of a character offset."""
    before = text[:offset]
    return Place(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def place_of(node: exp.Expr, text: str, start: int = 0) -> Place | None:
    """Where a syntax node stands in the text that it was parsed from, `start` characters in."""
    offsets = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return place_at(text, start + min(offsets)) if offsets else None


def name_of(table: exp.Expr) -> str:
    """The name of a table, view or schema, with points between its parts."""
    return ".".join(part.name for part in table.parts) if isinstance(table, exp.Table) else table.name


def altered_by(node: exp.Expr, text: str) -> str | None:
    """The table or view that ALTER changes, also where only the engine understands how."""
    if isinstance(node, exp.Alter):
        return name_of(node.this)
    if not (isinstance(node, exp.Command) and node.name.upper() == "ALTER"):
        return None
    # behind ALTER sqlglot keeps the text as it is
    words = [token.text for token in tokenize(text[text.upper().index("ALTER") + len("ALTER") :])]
    kind, rest = words[0].upper() if words else "", words[1:]
    if kind not in ("TABLE", "VIEW"):
        return None
    if [word.upper() for word in rest[:2]] == ["IF", "EXISTS"]:
        rest = rest[2:]
    parts = rest[:1]
    for point, part in zip(rest[1::2], rest[2::2], strict=False):
        if point != ".":
            break
        parts.append(part)
    return ".".join(parts)


def tokenize(text: str) -> list[Token]:
    """The tokens of a text, or a SyntaxProblem."""
    try:
        return list(sqlglot.tokenize(text, read=DIALECT))
    except TokenError as problem:
        raise SyntaxProblem(
            f"the SQL cannot be read: {problem}", hint="is a quote or a comment left open?"
        ) from problem


def _words(text: str) -> list[Word]:
    """The tokens of a statement. Behind a word such as SHOW sqlglot takes all the rest as one string; here
    the first word is set apart, so that the rest is read like any other SQL."""
    start = len(text) - len(text.lstrip())
    end = start
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    rest = [Word(w.text, w.start + end, w.token_type is TokenType.IDENTIFIER) for w in tokenize(text[end:])]
    return ([Word(text[start:end], start, False)] if end > start else []) + rest


def split(text: str) -> Iterator[Statement]:
    """The statements of a script, as text, in order; a semicolon ends one."""
    group: list[Token] = []
    for token in [*tokenize(text), None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            group.append(token)
        elif group:
            first, last = group[0], group[-1]
            yield Statement(text[first.start : last.end + 1], text[: first.start].count("\n") + 1)
            group = []


def parse(statement: Statement | str) -> Statement:
    """One statement, understood: a CreateView, an OnView, or Plain SQL; one that is already stays."""
    if isinstance(statement, CreateView | OnView | Plain):
        return statement
    if isinstance(statement, str):
        statement = Statement(statement.strip().rstrip(";"))
    words = _Words(statement.text, _words(statement.text))
    line = statement.first_line
    if words.take("CREATE"):
        replace = bool(words.take("OR", "REPLACE"))
        if words.take("MATERIALIZED", "VIEW"):
            return _create_view(words, line, replace)
    elif verb := words.take_any("REFRESH", "EXPLAIN", "VERIFY", "OPTIMIZE", "DROP", "SHOW"):
        if words.take("MATERIALIZED", "VIEWS"):
            if verb not in ("REFRESH", "SHOW"):
                raise words.problem(f"{verb} takes one view", f"{verb} MATERIALIZED VIEW name")
            words.end()
            return OnView(words.text, line, verb.lower())
        if words.take("MATERIALIZED", "VIEW"):
            return _on_view(words, line, verb)
    return Plain(statement.text, line, _plain(statement.text))


def _plain(text: str) -> exp.Expr:
    """Any other SQL. What manages an engine only the engine understands."""
    first, _, rest = text.partition(" ")
    as_it_is = exp.Command(this=first.upper(), expression=exp.Literal.string(rest))
    if first.upper() in _ENGINES_OWN:
        return as_it_is
    try:
        tree = parse_sql(text)
    except SyntaxProblem:
        if first.upper() in ("DESC", "DESCRIBE"):  # of which sqlglot knows some forms
            return as_it_is
        raise
    # RESET x: sqlglot takes it for a value with a name
    return as_it_is if isinstance(tree, exp.Alias | exp.Column) else tree


def parse_sql(text: str, *, start: int = 0, whole: str | None = None) -> exp.Expr:
    """sqlglot's tree of one statement; errors carry the place in `whole`."""
    try:
        trees = sqlglot.parse(text, read=DIALECT)
    except ParseError as problem:
        first = problem.errors[0] if problem.errors else {}
        place = None
        if first.get("line"):
            lines = text.splitlines(keepends=True)
            offset = sum(map(len, lines[: first["line"] - 1])) + max(first["col"] - 1, 0)
            # sqlglot counts to the end of the token it stumbled over
            offset -= max(len(first.get("highlight") or "") - 1, 0)
            place = place_at(whole if whole is not None else text, start + max(offset, 0))
        what = first.get("description", str(problem)).rstrip(".")
        if "<" in what:  # names of sqlglot's own classes and tokens say nothing to a user
            what = "something is missing or out of place here"
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        raise SyntaxProblem(
            f"the SQL cannot be parsed{near}: {what}",
            hint="viewkeep reads Spark SQL; check for a missing comma, bracket or keyword",
            place=place,
        ) from problem
    tree = trees[0] if trees else None
    if tree is None:
        raise SyntaxProblem("there is no statement here", hint="write one SQL statement")
    if len(trees) > 1:
        raise SyntaxProblem("more than one statement", hint="give them one at a time")
    _place_keywords(tree, text)
    for conflict in tree.find_all(exp.OnConflict):  # ON CONFLICT (k): sqlglot takes k for a term of an order
        keys = [k.this if isinstance(k, exp.Ordered) else k for k in conflict.args.get("conflict_keys") or ()]
        conflict.set("conflict_keys", keys)
    return tree


def _place_keywords(tree: exp.Expr, text: str) -> None:
    """CURRENT_DATE without brackets: sqlglot keeps the places of names alone."""
    bare = [n for n in tree.find_all(*_KEYWORDS, bfs=False) if "start" not in n.meta]
    words = [token for token in tokenize(text) if token.text.upper() in _KEYWORDS.values()] if bare else []
    for node in bare:
        for token in words:
            if token.text.upper() == _KEYWORDS[type(node)]:
                node.meta["start"] = token.start
                words.remove(token)
                break


class _Words:
    """A cursor over the tokens of one of viewkeep's own statements."""

    def __init__(self, text: str, tokens: list[Word]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0

    def _upper(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at].text.upper() if at < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        if all(self._upper(i) == word for i, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def take_any(self, *words: str) -> str | None:
        return next((word for word in words if self.take(word)), None)

    def need(self, word: str, hint: str) -> None:
        if not self.take(word):
            raise self.problem(f"expected {word}", hint)

    def name(self, what: str) -> str:
        parts = [self._identifier(what)]
        while self.take("."):
            parts.append(self._identifier(what))
        return ".".join(parts)

    def _identifier(self, what: str) -> str:
        if self.at >= len(self.tokens):
            raise self.problem(f"expected {what}", "the statement ends too early")
        token = self.tokens[self.at]
        if not (token.text.replace("_", "a").isalnum() or token.quoted):
            raise self.problem(f"expected {what}, found {token.text!r}", "write a name here")
        self.at += 1
        return token.text

    def value(self) -> str:
        if self.at >= len(self.tokens):
            raise self.problem("expected a value", _OPTIONS_HINT)
        self.at += 1
        return self.tokens[self.at - 1].text

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise self.problem(f"unexpected {self.tokens[self.at].text!r}", "the statement should end here")

    def problem(self, message: str, hint: str) -> ViewkeepError:
        at = min(self.at, len(self.tokens) - 1)
        return SyntaxProblem(message, hint=hint, place=place_at(self.text, self.tokens[at].start))


def _create_view(words: _Words, line: int, replace: bool) -> CreateView:
    if_not_exists = words.take("IF", "NOT", "EXISTS")
    name = words.name("the view's name")
    options: dict[str, str] = {}
    if words.take("WITH"):
        words.need("(", _OPTIONS_HINT)
        while True:
            option = words.name("an option's name").lower()
            words.need("=", _OPTIONS_HINT)
            options[option] = words.value()
            if not words.take(","):
                break
        words.need(")", _OPTIONS_HINT)
    words.need("AS", _OPTIONS_HINT)
    if words.at >= len(words.tokens):
        raise words.problem("the view has no query", _OPTIONS_HINT)
    start = words.tokens[words.at].start
    query = words.text[start:]
    return CreateView(words.text, line, name, query, start, options, replace, if_not_exists)


def _on_view(words: _Words, line: int, verb: str) -> OnView:
    if_exists = verb == "DROP" and words.take("IF", "EXISTS")
    name = words.name("the view's name")
    full = verb == "REFRESH" and words.take("FULL")
    words.end()
    return OnView(words.text, line, verb.lower(), name, bool(full), bool(if_exists))
