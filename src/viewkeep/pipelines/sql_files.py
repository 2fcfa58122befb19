"""The SQL files of a project: CREATE MATERIALIZED VIEW and CREATE TEMPORARY VIEW, with the clauses that
Spark's pipelines have between the name and AS."""

from __future__ import annotations

from pathlib import Path

from sqlglot.tokenizer_core import Token, TokenType

from viewkeep.errors import Place, SyntaxProblem, Unsupported, ViewkeepError
from viewkeep.frontend.statements import Statement, place_at, split, tokenize
from viewkeep.pipelines.elements import STREAMING_HINT, Element, Elements, Refused, Where, own_properties
from viewkeep.pipelines.errors import PipelineProblem

_FORM = "write CREATE MATERIALIZED VIEW name AS SELECT ..."
# clauses that say how a view is stored, with how they begin
_STORAGE = ("USING", "PARTITIONED BY", "CLUSTERED BY", "CLUSTER BY", "COMMENT", "TBLPROPERTIES", "OPTIONS",
            "LOCATION")  # fmt: skip


def read_sql(file: Path, shown: str, found: Elements) -> None:
    """Takes down what a file defines; a statement that cannot be read does not stop the others."""
    try:
        statements = list(split(file.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError) as problem:
        error: ViewkeepError = PipelineProblem(f"{shown} cannot be read: {problem}", hint="save it as UTF-8")
        found.complete = False
        found.refused.append(Refused(shown, Where(shown, 1), error))
        return
    except SyntaxProblem as problem:
        found.complete = False
        line = problem.place.line if problem.place else 1
        found.refused.append(Refused(shown, Where(shown, line), problem))
        return
    for statement in statements:
        header = _Header(statement)
        where = Where(shown, statement.first_line)
        try:
            found.views.append(header.element(where))
        except ViewkeepError as problem:
            found.refused.append(Refused(header.name or shown, where, problem))
            # a statement whose name is not known may have been that of a view
            found.complete = found.complete and bool(header.name)


class _Header:
    """A cursor over what stands before the query."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._tokens: list[Token] = tokenize(statement.text)
        self._at = 0
        self.name = ""

    def element(self, where: Where) -> Element:
        temporary = self._kind()
        self._take("IF", "NOT", "EXISTS")
        self.name = self._name()
        if self._upper() == "(":
            raise self._problem(
                f"{self.name} lists its columns before AS", "name them in the query: SELECT a AS name, ..."
            )
        properties: dict[str, str] = {}
        unused = []
        while clause := next((clause for clause in _STORAGE if self._take_clause(clause)), None):
            given = self._value()
            if clause == "TBLPROPERTIES":
                own, others = own_properties(_pairs(given))
                properties |= own
                unused += ["tblproperties"] if others else []
            elif clause != "USING" or given[0].text.lower() != "delta":
                unused.append(clause.lower())
        if not self._take("AS") or self._at >= len(self._tokens):
            raise self._problem(f"the query of {self.name} is missing", _FORM, kind=SyntaxProblem)
        start = self._tokens[self._at].start
        text = self._statement.text
        return Element(
            self.name,
            where,
            temporary,
            statement=self._statement,
            query=text[start:],
            query_start=start,
            properties={f"viewkeep.{k}": v for k, v in properties.items()},
            unused=tuple(unused),
        )

    def _kind(self) -> bool:
        """Whether a view is temporary."""
        if not self._take("CREATE"):
            raise self._problem(
                f"{self._upper() or 'this statement'} defines no view",
                "leave settings, USE and other statements out of the project's files; catalog, database and "
                "configuration belong in its spec",
            )
        self._take("OR", "REPLACE")
        if self._take("MATERIALIZED", "VIEW"):
            return False
        if self._take("TEMPORARY", "VIEW") or self._take("TEMP", "VIEW"):
            return True
        if self._take("STREAMING", "TABLE") or self._take("FLOW"):
            self._take("IF", "NOT", "EXISTS")
            self.name = self._name()
            raise self._problem(
                f"{self.name} is a streaming table or flow, and viewkeep keeps materialized views",
                STREAMING_HINT,
            )
        if self._take("VIEW"):
            self._take("IF", "NOT", "EXISTS")
            self.name = self._name()
            raise self._problem(
                f"{self.name} is a plain view, which stores nothing",
                "make it CREATE TEMPORARY VIEW, or CREATE MATERIALIZED VIEW",
            )
        raise self._problem(f"CREATE {self._upper()} defines no view", _FORM)

    def _upper(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].text.upper() if at < len(self._tokens) else ""

    def _take(self, *words: str) -> bool:
        if all(self._upper(n) == word for n, word in enumerate(words)):
            self._at += len(words)
            return True
        return False

    def _take_clause(self, clause: str) -> bool:
        """Two words may be one token, or two."""
        return self._take(clause) or self._take(*clause.split())

    def _name(self) -> str:
        parts = [self._part()]
        while self._take("."):
            parts.append(self._part())
        return ".".join(parts)

    def _part(self) -> str:
        if self._at >= len(self._tokens):
            raise self._problem("the name of the view is missing", _FORM, kind=SyntaxProblem)
        self._at += 1
        return self._tokens[self._at - 1].text

    def _value(self) -> list[Token]:
        """What a clause says: a word, or what stands in brackets."""
        if not self._take("("):
            self._at += 1
            if self._at > len(self._tokens):
                raise self._problem(f"the query of {self.name} is missing", _FORM, kind=SyntaxProblem)
            return [self._tokens[self._at - 1]]
        depth, start = 1, self._at
        while depth and self._at < len(self._tokens):
            depth += {"(": 1, ")": -1}.get(self._bracket(), 0)
            self._at += 1
        return self._tokens[start : self._at - 1]

    def _bracket(self) -> str:
        token = self._tokens[self._at]
        return token.text if token.token_type in (TokenType.L_PAREN, TokenType.R_PAREN) else ""

    def _problem(self, message: str, hint: str, kind: type[ViewkeepError] = Unsupported) -> ViewkeepError:
        at = min(self._at, len(self._tokens) - 1)
        return kind(message, hint=hint, place=self._place(at))

    def _place(self, at: int) -> Place:
        return place_at(self._statement.text, self._tokens[at].start)


def _pairs(tokens: list[Token]) -> dict[str, str]:
    """`'a.b' = 'c', d.e = 'f'` as a mapping."""
    pairs: dict[str, str] = {}
    key, value, behind = "", "", False
    for token in tokens:
        if token.token_type is TokenType.COMMA:
            pairs[key], key, value, behind = value, "", "", False
        elif token.token_type is TokenType.EQ:
            behind = True
        elif behind:
            value += token.text
        else:
            key += token.text
    return {**pairs, key: value} if key else pairs
