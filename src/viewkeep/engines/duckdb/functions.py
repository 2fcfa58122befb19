"""The functions of views in DuckDB's words, with Spark's meaning where the two differ.

A template is DuckDB SQL over a, b, c, which stand for the arguments; it is read once, and syntax trees are
put in their places. Casts to INTEGER are there because DuckDB's own functions answer BIGINT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import sqlglot
from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import substitute
from viewkeep.errors import Unsupported
from viewkeep.frontend.functions import CAST, EDGES, MICROS, PATTERN, PREFIX, TRY_CAST, pieces

Expr = exp.Expr

# what Spark trims from a string before it reads a number or a date in it
_BLANKS = "".join(map(chr, [*range(1, 33), *range(127, 160)]))
_NAN = "'NaN'::DOUBLE"
_ZERO = "error('division by zero')"
_OUTSIDE = "error('there is no such element in the array')"


def _shiftleft(kind: str, bits: int) -> str:
    """DuckDB fails for negative numbers and for bits that leave the left end."""
    half, whole = f"{2 ** (bits - 1)}::HUGEINT", f"{2**bits}::HUGEINT"
    moved = f"CAST(a AS HUGEINT) * (1::HUGEINT << (b & {bits - 1}))"
    return f"CAST((({moved}) % {whole} + {whole} + {half}) % {whole} - {half} AS {kind})"


def _since_1970(factor: int) -> str:
    """A moment, of the years that every engine has."""
    first, last = (edge // factor for edge in EDGES)
    outside = "error('this is no moment of the years 1 to 9999: ' || a)"
    return (
        f"CASE WHEN a BETWEEN {first} AND {last} THEN make_timestamp(a * {factor}) "
        f"WHEN a IS NOT NULL THEN {outside} END"
    )


# Without an entry, DuckDB has the same function under the same name.
_TEMPLATES: Mapping[str, str] = {
    # numbers
    "sign": f"CASE WHEN isnan(a) THEN {_NAN} ELSE CAST(sign(a) AS DOUBLE) END",  # DuckDB: 0 for NaN
    "ceil_integer": "CAST(a AS BIGINT)",
    "floor_integer": "CAST(a AS BIGINT)",
    "ceil_decimal": "ceil(a)",
    "floor_decimal": "floor(a)",
    # Java's conversion to long: 0 for NaN, and the nearest long for what is too large
    **{
        f"{name}_double": "CASE WHEN isnan(a) THEN 0 "
        "WHEN a >= 9.2233720368547758e18 THEN 9223372036854775807 "
        "WHEN a < -9.2233720368547758e18 THEN -9223372036854775807 - 1 "
        f"ELSE CAST({name}(a) AS BIGINT) END"
        for name in ("ceil", "floor")
    },
    "sqrt": f"CASE WHEN a < 0 THEN {_NAN} ELSE sqrt(a) END",
    "power": "pow(a, b)",
    "ln": "CASE WHEN a > 0 THEN ln(a) END",
    "log": "CASE WHEN a > 0 AND b > 0 THEN ln(b) / ln(a) END",
    "log2": "CASE WHEN a > 0 THEN ln(a) / ln(2::DOUBLE) END",
    "log10": "CASE WHEN a > 0 THEN log10(a) END",
    "isnan": "COALESCE(isnan(a), FALSE)",
    # Java's is NaN where DuckDB's fails
    **{
        name: f"CASE WHEN isfinite(a) THEN {name}(a) WHEN a IS NOT NULL THEN {_NAN} END"
        for name in ("sin", "cos", "tan")
    },
    **{
        name: f"CASE WHEN a BETWEEN -1 AND 1 THEN {name}(a) WHEN a IS NOT NULL THEN {_NAN} END"
        for name in ("asin", "acos")
    },
    "bit_count": "CAST(bit_count(a) AS INTEGER)",
    "hex_integer": "to_hex(a)",
    "mod_double": f"CASE WHEN b = 0 THEN {_ZERO} ELSE a % b END",
    "pmod": "CASE WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END",
    "div": "a // b",
    "bitand": "a & b",
    "bitor": "a | b",
    "bitxor": "xor(a, b)",
    # Java shifts by the lowest bits of the count, and drops what leaves the left end
    "shiftleft_int": _shiftleft("INTEGER", 32),
    "shiftleft_bigint": _shiftleft("BIGINT", 64),
    "shiftright_int": "a >> (b & 31)",
    "shiftright_bigint": "a >> (b & 63)",
    "timestampdiff": "date_sub(a, b, c)",
    "unix_timestamp": "CAST(trunc(epoch(a)) AS BIGINT)",  # towards 0, also before 1970
    # aggregates, and what they make
    "collect_list": "COALESCE(list(a ORDER BY a) FILTER (WHERE a IS NOT NULL), [])",
    "collect_set": "COALESCE(list(DISTINCT a ORDER BY a) FILTER (WHERE a IS NOT NULL), [])",
    "max_by": "first(a ORDER BY b DESC, a DESC NULLS LAST) FILTER (WHERE b IS NOT NULL)",
    "min_by": "first(a ORDER BY b, a NULLS FIRST) FILTER (WHERE b IS NOT NULL)",
    "mode": "mode(a ORDER BY a)",
    "percentile_cont": "quantile_cont(a, b)",
    "percentile_disc": "quantile_disc(a, b)",
    "percentile_disc_desc": "quantile_disc(a, b ORDER BY a DESC)",
    "regr_slope": "CASE WHEN regr_sxx(a, b) <> 0 THEN regr_slope(a, b) END",
    "corr": "CASE WHEN regr_sxx(a, b) <> 0 AND regr_syy(a, b) <> 0 THEN corr(a, b) END",
    "size": "CAST(len(a) AS INTEGER)",
    # not a[b]: sqlglot moves a position that is written out by one
    "get": "CASE WHEN b >= 0 THEN list_extract(a, b + 1) END",
    "at": f"CASE WHEN b < 0 OR b >= len(a) THEN {_OUTSIDE} ELSE list_extract(a, b + 1) END",
    "element_at": f"CASE WHEN b = 0 OR abs(b) > len(a) THEN {_OUTSIDE} ELSE list_extract(a, b) END",
    "sort_array": "list_sort(a, 'ASC')",
    "sort_array_desc": "list_sort(a, 'DESC')",
    "array_contains": "CASE WHEN b IS NOT NULL THEN list_contains(a, b) END",
    "array_join": "array_to_string(a, b)",
    "array_min": "list_min(a)",
    "array_max": "list_max(a)",
    # strings
    "trim": "trim(a, ' ')",  # DuckDB's own trims every kind of space
    "ltrim": "ltrim(a, ' ')",
    "rtrim": "rtrim(a, ' ')",
    "trim_of": "trim(a, b)",
    "ltrim_of": "ltrim(a, b)",
    "rtrim_of": "rtrim(a, b)",
    "length": "CAST(length(a) AS INTEGER)",
    "left": "left(a, greatest(b, 0))",  # DuckDB's left(s, -1) is all but the last
    "right": "right(a, greatest(b, 0))",
    "repeat": "repeat(a, greatest(b, 0))",
    "space": "repeat(' ', greatest(a, 0))",
    # by code point, as Java; DuckDB's own keeps an accent with its letter
    "reverse": "array_to_string(list_reverse(string_split(a, '')), '')",
    "instr": "CAST(instr(a, b) AS INTEGER)",
    "startswith": "starts_with(a, b)",
    "endswith": "ends_with(a, b)",
    "ascii": "CAST(ascii(a) AS INTEGER)",
    "chr": "CASE WHEN a < 0 THEN '' ELSE chr(CAST(a % 256 AS INTEGER)) END",
    "initcap": "array_to_string(list_transform(string_split(lower(a), ' '), x -> upper(x[1]) || x[2:]), ' ')",
    "hex_string": "hex(a)",
    "octet_length": "CAST(strlen(a) AS INTEGER)",
    "bit_length": "CAST(bit_length(a) AS INTEGER)",
    "regexp_count": "CAST(len(regexp_extract_all(a, c)) AS INTEGER)",
    "regexp_extract": "regexp_extract(a, c, e)",
    "split": "string_split_regex(a, c)",
    # an empty delimiter splits nothing in Spark, and part 0 is an error
    "split_part": "CASE WHEN c = 0 THEN error('the index of SPLIT_PART must not be 0') "
    "WHEN b = '' THEN CASE WHEN c IN (1, -1) THEN a WHEN a IS NOT NULL THEN '' END "
    "ELSE split_part(a, b, c) END",
    # dates
    "date_add": "a + b",
    "date_sub": "a - b",
    "add_months": "CAST(a + to_months(b) AS DATE)",
    "datediff": "CAST(a - b AS INTEGER)",
    **{
        name: f"CAST({name}(a) AS INTEGER)"
        for name in ("year", "quarter", "month", "day", "dayofyear", "weekofyear", "hour", "minute", "second")
    },
    "dayofweek": "CAST(dayofweek(a) + 1 AS INTEGER)",  # Spark counts from Sunday = 1
    "weekday": "CAST(isodow(a) - 1 AS INTEGER)",  # and from Monday = 0
    "second_fraction": "CAST(microsecond(a) * 0.000001 AS DECIMAL(8, 6))",
    "unix_seconds": "CAST(floor(CAST(epoch_us(a) AS DECIMAL(38, 6)) * 0.000001) AS BIGINT)",
    "unix_millis": "CAST(floor(CAST(epoch_us(a) AS DECIMAL(35, 3)) * 0.001) AS BIGINT)",
    "unix_micros": "epoch_us(a)",
    **{f"timestamp_{name}": _since_1970(factor) for name, factor in MICROS.items()},
    "unix_date": "CAST(a - DATE '1970-01-01' AS INTEGER)",
    "date_from_unix_date": "DATE '1970-01-01' + a",
}


def spell(node: exp.Anonymous) -> Expr | None:
    """The call in DuckDB's words, or None where it is none of viewkeep's."""
    name = node.name
    if not name.startswith(PREFIX) or not node.meta_get("made"):
        return None
    name, arguments = name.removeprefix(PREFIX), node.expressions
    if name in _BUILT:
        return _BUILT[name](arguments)
    if name in _TEMPLATES:
        return _filled(_TEMPLATES[name], arguments)
    return exp.Anonymous(this=name, expressions=[a.copy() for a in arguments])


@cache
def _template(text: str) -> Expr:
    return sqlglot.parse_one(text, dialect="duckdb")


def _filled(text: str, arguments: Sequence[Expr]) -> Expr:
    made = substitute(_template(text), dict(zip("abcdef", arguments, strict=False)))
    return exp.Paren(this=made) if isinstance(made, (exp.Binary, exp.Unary)) else made


# --- functions that depend on how many arguments there are, or on literal ones ---


def _number(node: Expr) -> int | None:
    try:
        return int(node.sql())
    except ValueError:
        return None


def _substring(arguments: Sequence[Expr]) -> Expr:
    """Spark counts from the end for a negative start, takes 0 for 1, and may start before the string:
    SUBSTRING('abc', -5, 3) is 'a'. DuckDB's own does otherwise for starts below 1 and negative lengths."""
    start = _number(arguments[1])
    if start is not None and start >= 0:
        first = exp.Literal.number(max(start, 1))
        if len(arguments) == 2:
            return _filled("substring(a, b)", [arguments[0], first])
        return _filled("substring(a, b, greatest(c, 0))", [arguments[0], first, arguments[2]])
    begin = "CASE WHEN b > 0 THEN b - 1 WHEN b < 0 THEN length(a) + b ELSE 0 END"
    if len(arguments) == 2:
        return _filled(f"substring(a, greatest({begin}, 0) + 1)", arguments)
    whole = f"substring(a, greatest({begin}, 0) + 1, greatest({begin} + c - greatest({begin}, 0), 0))"
    return _filled(whole, arguments)


def _padded(name: str) -> Callable[[Sequence[Expr]], Expr]:
    def made(arguments: Sequence[Expr]) -> Expr:
        if len(arguments) == 2:
            return _filled(f"{name}(a, greatest(b, 0), ' ')", arguments)
        # DuckDB fails where there is nothing to pad with
        return _filled(
            f"CASE WHEN c = '' THEN left(a, greatest(b, 0)) ELSE {name}(a, greatest(b, 0), c) END", arguments
        )

    return made


def _replace(arguments: Sequence[Expr]) -> Expr:
    return _filled("replace(a, b, c)", [*arguments, exp.Literal.string("")][:3])


def _round_integer(arguments: Sequence[Expr]) -> Expr:
    return _cast(_filled("round(CAST(a AS DECIMAL(38, 0)), b)", arguments[:2]), arguments[2].name)


def _round_decimal(arguments: Sequence[Expr]) -> Expr:
    # DuckDB's round(NULL, -5) of a DECIMAL(5,3) is 0
    rounded = _filled("CASE WHEN a IS NOT NULL THEN round(a, b) END", arguments[:2])
    return _cast(rounded, arguments[2].name)


def _round_double(arguments: Sequence[Expr]) -> Expr:
    """Spark rounds the shortest decimal that stands for the double, so 1.005 becomes 1.01; DuckDB rounds
    1.005 * 100, which is 100.49999999999999. Doubles from 1e16 on are whole."""
    value, places = arguments
    scale = int(places.sql())
    near = f"CAST(CAST(a AS VARCHAR) AS DECIMAL(38, {max(scale, 0)}))"
    if scale < 0:
        near = f"round(CAST(CAST(a AS VARCHAR) AS DECIMAL(38, 1)), {scale})"
        return _filled(
            f"CASE WHEN abs(a) < 1e36 THEN CAST(CAST({near} AS VARCHAR) AS DOUBLE) ELSE a END", [value]
        )
    return _filled(
        f"CASE WHEN abs(a) < 1e16 THEN CAST(CAST({near} AS VARCHAR) AS DOUBLE) ELSE a END", [value]
    )


def _rlike(arguments: Sequence[Expr]) -> Expr:
    return exp.Anonymous(this="regexp_matches", expressions=[arguments[0].copy(), arguments[2].copy()])


def _regexp_replace(arguments: Sequence[Expr]) -> Expr:
    by = exp.Literal.string(arguments[4].name.replace("$", "\\"))
    return _filled("regexp_replace(a, b, c, 'g')", [arguments[0], arguments[2], by])


def _sha2(arguments: Sequence[Expr]) -> Expr:
    if arguments[1].name != "256":
        raise Unsupported(f"SHA2 of {arguments[1].name} bits is not supported on DuckDB", hint="SHA2(s, 256)")
    return _filled("sha256(a)", arguments[:1])


def _substring_index(arguments: Sequence[Expr]) -> Expr:
    count = int(arguments[2].sql())
    some = f"[1:{count}]" if count > 0 else f"[greatest(len(string_split(a, b)) + 1 - {-count}, 1):]"
    return _filled(f"array_to_string(string_split(a, b){some}, b)", arguments[:2])


def _date_trunc(arguments: Sequence[Expr]) -> Expr:
    cut = exp.Anonymous(this="date_trunc", expressions=[a.copy() for a in arguments])
    return exp.Cast(this=cut, to=exp.DataType.build("TIMESTAMP", dialect="duckdb"))


def _trunc(arguments: Sequence[Expr]) -> Expr:
    return _cast(_date_trunc(arguments[::-1]), "DATE")


def _date_format(arguments: Sequence[Expr]) -> Expr:
    codes = [
        PATTERN[p][0].removesuffix("strict") if p in PATTERN else p for p in pieces(arguments[1].name) or ()
    ]
    return _filled("strftime(a, b)", [arguments[0], exp.Literal.string("".join(codes))])


def _read_by(arguments: Sequence[Expr]) -> tuple[str, dict[str, str]]:
    """A regular expression for a date pattern, exact in the number of digits, and where each part is."""
    made, groups = "", dict[str, str]()
    for piece in pieces(arguments[1].name) or ():
        if piece in PATTERN:
            groups[piece] = f"CAST(regexp_extract(a, b, {len(groups) + 1}) AS BIGINT)"
            made += rf"(\d{{{PATTERN[piece][1]}}})"
        else:
            made += "".join(f"[{c}]" if c not in "^\\" else f"\\{c}" for c in piece)
    return made, groups


_NO_DATE = "error('this string does not fit the pattern: ' || a)"


def _to_date(arguments: Sequence[Expr]) -> Expr:
    regex, part = _read_by(arguments)
    made = f"make_date({part['yyyy']}, {part['MM']}, {part['dd']})"
    text = f"CASE WHEN regexp_full_match(a, b) THEN {made} WHEN a IS NOT NULL THEN {_NO_DATE} END"
    return _filled(text, [arguments[0], exp.Literal.string(regex)])


def _to_timestamp(arguments: Sequence[Expr]) -> Expr:
    regex, part = _read_by(arguments)
    clock = ", ".join(part.get(p, "0") for p in ("HH", "mm", "ss"))
    made = f"make_timestamp({part['yyyy']}, {part['MM']}, {part['dd']}, {clock})"
    text = f"CASE WHEN regexp_full_match(a, b) THEN {made} WHEN a IS NOT NULL THEN {_NO_DATE} END"
    return _filled(text, [arguments[0], exp.Literal.string(regex)])


# --- casts ---


def _cast(value: Expr, kind: str) -> Expr:
    return exp.Cast(this=value.copy(), to=exp.DataType.build(kind, dialect="spark"))


_INTEGER = r"[+-]?\d+"
_DECIMAL = r"[+-]?(\d+\.?\d*|\.\d+)"
_DOUBLE = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?"
_DAY = r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?"
_MOMENT = r"(\d{4}-\d{1,2}-\d{1,2})(?:[T ](\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d{0,6})?)\d*)?"


def _cast_call(attempt: bool) -> Callable[[Sequence[Expr]], Expr]:
    def made(arguments: Sequence[Expr]) -> Expr:
        source, target = (t.parse(a.name) for a in arguments[1:])
        assert source is not None
        assert target is not None
        return _cast_between(arguments[0], source, target, attempt)

    return made


def _cast_between(value: Expr, source: t.Type, target: t.Type, attempt: bool) -> Expr:
    kind = "TRY_CAST" if attempt else "CAST"
    sql = target.sql().sql("duckdb").replace("TIMESTAMPTZ", "TIMESTAMP")
    if source == t.STRING:
        return _from_string(value, target, kind, sql)
    if target == t.BOOLEAN:
        return _filled("a <> 0", [value])
    if source == t.DOUBLE and target.is_integer:  # DuckDB rounds
        return _filled(f"{kind}(trunc(a) AS {sql})", [value])
    if source == t.DOUBLE and target.kind == "decimal":
        # by the shortest decimal that stands for the double; NULL for what is no number
        shortest = f"{kind}(CAST(a AS VARCHAR) AS {sql})"
        return _filled(f"CASE WHEN isfinite(a) THEN {shortest} END", [value])
    if source.kind == "decimal" and target.is_integer:
        return _filled(f"{kind}(trunc(a) AS {sql})", [value])
    if source.kind == "decimal" and target == t.DOUBLE:  # DuckDB divides two rounded doubles
        return _filled("CAST(CAST(a AS VARCHAR) AS DOUBLE)", [value])
    return _filled(f"{kind}(a AS {sql})", [value])


def _from_string(value: Expr, target: t.Type, kind: str, sql: str) -> Expr:
    """Only what Spark reads, in Spark's forms: DuckDB would read '1.5' as the integer 2, and '1e1' as 10."""
    trimmed = exp.Anonymous(this="trim", expressions=[value.copy(), exp.Literal.string(_BLANKS)])
    name = str(target)
    failure = "NULL" if kind == "TRY_CAST" else f"error('this string is no {name}: ' || a)"
    other = f"WHEN a IS NOT NULL THEN {failure} END"
    if target == t.BOOLEAN:
        text = (
            "CASE WHEN lower(a) IN ('t', 'true', 'y', 'yes', '1') THEN TRUE "
            f"WHEN lower(a) IN ('f', 'false', 'n', 'no', '0') THEN FALSE {other}"
        )
        return _filled(text, [trimmed])
    if target == t.DOUBLE:
        text = (
            f"CASE WHEN regexp_full_match(a, b) THEN CAST(regexp_extract(a, b, 1) AS DOUBLE) "
            f"WHEN lower(a) = 'nan' THEN {_NAN} "
            "WHEN lower(a) IN ('inf', '+inf', 'infinity', '+infinity') THEN 'Infinity'::DOUBLE "
            f"WHEN lower(a) IN ('-inf', '-infinity') THEN '-Infinity'::DOUBLE {other}"
        )
        return _filled(text, [trimmed, exp.Literal.string(_DOUBLE)])
    if target == t.DATE:
        parts = [f"lpad(coalesce(nullif(regexp_extract(a, b, {n}), ''), '1'), 2, '0')" for n in (2, 3)]
        day = f"{kind}(regexp_extract(a, b, 1) || '-' || {parts[0]} || '-' || {parts[1]} AS DATE)"
        text = f"CASE WHEN regexp_full_match(a, b) THEN {day} {other}"
        return _filled(text, [trimmed, exp.Literal.string(_DAY)])
    if target == t.TIMESTAMP:
        clock = "coalesce(nullif(regexp_extract(a, b, 2), ''), '00:00:00')"
        moment = f"CAST(regexp_extract(a, b, 1) || ' ' || {clock} AS TIMESTAMP)"
        text = f"CASE WHEN regexp_full_match(a, b) THEN {moment} {other}"
        return _filled(text, [trimmed, exp.Literal.string(_MOMENT)])
    regex = _INTEGER if target.is_integer else _DECIMAL
    if target.kind == "decimal":
        return _string_to_decimal(trimmed, kind, sql, other, regex)
    text = f"CASE WHEN regexp_full_match(a, b) THEN {kind}(a AS {sql}) {other}"
    return _filled(text, [trimmed, exp.Literal.string(regex)])


def _string_to_decimal(trimmed: Expr, kind: str, sql: str, other: str, regex: str) -> Expr:
    """A number with an exponent fails here, also in a TRY_CAST: DuckDB rounds some of them wrongly."""
    scientific = (
        "WHEN regexp_full_match(a, c) THEN error('a decimal with an exponent is not supported: ' || a) "
    )
    text = f"CASE WHEN regexp_full_match(a, b) THEN {kind}(a AS {sql}) {scientific}{other}"
    return _filled(text, [trimmed, exp.Literal.string(regex), exp.Literal.string(regex + r"[eE][+-]?\d+")])


_BUILT: Mapping[str, Callable[[Sequence[Expr]], Expr]] = {
    "substring": _substring,
    "lpad": _padded("lpad"),
    "rpad": _padded("rpad"),
    "replace": _replace,
    "round_integer": _round_integer,
    "round_decimal": _round_decimal,
    "round_double": _round_double,
    "rlike": _rlike,
    "regexp_replace": _regexp_replace,
    "sha2": _sha2,
    "substring_index": _substring_index,
    "date_trunc": _date_trunc,
    "trunc": _trunc,
    "date_format": _date_format,
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    CAST: _cast_call(attempt=False),
    TRY_CAST: _cast_call(attempt=True),
}
