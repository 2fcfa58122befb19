"""The functions of views in PostgreSQL's words, with Spark's meaning where the two differ.

Most are templates, see templates.py. viewkeep.fail and viewkeep.try_date are what the store creates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.engines.postgres import regexes
from viewkeep.engines.postgres.templates import filled
from viewkeep.errors import Unsupported
from viewkeep.frontend.functions import CAST, EDGES, MICROS, PATTERN, PREFIX, TRY_CAST, pieces

Expr = exp.Expr

# what Spark trims from a string before it reads a number or a date in it
_BLANKS = "".join(map(chr, [*range(1, 33), *range(127, 160)]))
_DOUBLE_TYPE = "DOUBLE PRECISION"
_NAN = f"CAST('NaN' AS {_DOUBLE_TYPE})"
_INFINITY = f"CAST('Infinity' AS {_DOUBLE_TYPE})"
_FINITE = f"a > -{_INFINITY} AND a < {_INFINITY}"
_OUTSIDE = "'there is no such element in the array'"


def _part(name: str) -> str:
    return f"CAST(EXTRACT({name} FROM a) AS INTEGER)"


def _since_1970(factor: int) -> str:
    """A moment, of the years that every engine has. Intervals are multiplied as doubles: days go apart."""
    first, last = (edge // factor for edge in EDGES)
    day = 86_400_000_000 // factor
    rest = f"(a - floor(a / {day}.0) * {day}) * {factor}"
    moment = (
        f"CAST(DATE '1970-01-01' + CAST(floor(a / {day}.0) AS INTEGER) AS TIMESTAMP) "
        f"+ CAST({rest} AS {_DOUBLE_TYPE}) * INTERVAL '1 microsecond'"
    )
    outside = "viewkeep.fail('this is no moment of the years 1 to 9999', CAST(NULL AS TIMESTAMP))"
    return f"CASE WHEN a BETWEEN {first} AND {last} THEN {moment} WHEN a IS NOT NULL THEN {outside} END"


# Without an entry, PostgreSQL has the same function under the same name.
_TEMPLATES: Mapping[str, str] = {
    # numbers
    "sign": f"CASE WHEN a = {_NAN} THEN a ELSE sign(a) END",
    "ceil_integer": "CAST(a AS BIGINT)",
    "floor_integer": "CAST(a AS BIGINT)",
    "ceil_decimal": "ceil(a)",
    "floor_decimal": "floor(a)",
    # Java's conversion to long: 0 for NaN, and the nearest long for what is too large
    **{
        f"{name}_double": f"CASE WHEN a = {_NAN} THEN 0 "
        "WHEN a >= 9.2233720368547758e18 THEN 9223372036854775807 "
        "WHEN a < -9.2233720368547758e18 THEN -9223372036854775807 - 1 "
        f"ELSE CAST({name}(a) AS BIGINT) END"
        for name in ("ceil", "floor")
    },
    "sqrt": f"CASE WHEN a < 0 THEN {_NAN} ELSE sqrt(a) END",
    # PostgreSQL fails where Java answers NaN or infinity
    "power": f"CASE WHEN a < 0 AND b <> trunc(b) THEN {_NAN} WHEN a = 0 AND b < 0 THEN {_INFINITY} "
    "ELSE viewkeep.power(a, b) END",
    "exp": f"CASE WHEN a = {_NAN} THEN a WHEN a > 709.782712893384 THEN {_INFINITY} "
    "WHEN a < -745.133219101942 THEN 0 ELSE exp(a) END",
    "ln": "CASE WHEN a > 0 THEN ln(a) END",
    "log": f"CASE WHEN NOT (a > 0 AND b > 0) THEN NULL WHEN a <> 1 THEN ln(b) / ln(a) WHEN b = 1 THEN {_NAN} "
    f"WHEN b > 1 THEN {_INFINITY} WHEN b < 1 THEN -{_INFINITY} END",
    "log2": f"CASE WHEN a > 0 THEN ln(a) / ln(CAST(2 AS {_DOUBLE_TYPE})) END",
    "log10": "CASE WHEN a > 0 THEN log(a) END",
    "isnan": f"COALESCE(a = {_NAN}, FALSE)",
    "sin": f"CASE WHEN {_FINITE} THEN sin(a) WHEN a IS NOT NULL THEN {_NAN} END",
    "cos": f"CASE WHEN {_FINITE} THEN cos(a) WHEN a IS NOT NULL THEN {_NAN} END",
    "tan": f"CASE WHEN {_FINITE} THEN tan(a) WHEN a IS NOT NULL THEN {_NAN} END",
    "asin": f"CASE WHEN a BETWEEN -1 AND 1 THEN asin(a) WHEN a IS NOT NULL THEN {_NAN} END",
    "acos": f"CASE WHEN a BETWEEN -1 AND 1 THEN acos(a) WHEN a IS NOT NULL THEN {_NAN} END",
    "bit_count": "CAST(bit_count(CAST(a AS BIT(64))) AS INTEGER)",
    "pmod": "CASE WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END",
    "div": "CAST(a AS BIGINT) / CAST(b AS BIGINT)",
    "bitand": "a & b",
    "bitor": "a | b",
    "bitxor": "a # b",
    # Java shifts by the lowest bits of the count, and drops what leaves the left end
    "shiftleft_int": "a << (b & 31)",
    "shiftleft_bigint": "a << (b & 63)",
    "shiftright_int": "a >> (b & 31)",
    "shiftright_bigint": "a >> (b & 63)",
    "unix_timestamp": "CAST(trunc(EXTRACT(epoch FROM a)) AS BIGINT)",  # towards 0, also before 1970
    # aggregates, and what they make
    "collect_list": "COALESCE(array_agg(a ORDER BY a) FILTER (WHERE a IS NOT NULL), '{}')",
    "collect_set": "COALESCE(array_agg(DISTINCT a ORDER BY a) FILTER (WHERE a IS NOT NULL), '{}')",
    "max_by": "(array_agg(a ORDER BY b DESC, a DESC NULLS LAST) FILTER (WHERE b IS NOT NULL))[1]",
    "min_by": "(array_agg(a ORDER BY b, a NULLS FIRST) FILTER (WHERE b IS NOT NULL))[1]",
    "mode": "mode() WITHIN GROUP (ORDER BY a)",
    "percentile_cont": "percentile_cont(b) WITHIN GROUP (ORDER BY a)",
    "percentile_disc": "percentile_disc(b) WITHIN GROUP (ORDER BY a)",
    "percentile_disc_desc": "percentile_disc(b) WITHIN GROUP (ORDER BY a DESC)",
    "regr_slope": "CASE WHEN regr_sxx(a, b) <> 0 THEN regr_slope(a, b) END",
    "size": "cardinality(a)",
    "get": "CASE WHEN b >= 0 THEN (a)[b + 1] END",
    "at": f"CASE WHEN b < 0 OR b >= cardinality(a) THEN viewkeep.fail({_OUTSIDE}, (a)[1]) "
    "ELSE (a)[b + 1] END",
    "element_at": f"CASE WHEN b = 0 OR abs(b) > cardinality(a) THEN viewkeep.fail({_OUTSIDE}, (a)[1]) "
    "WHEN b > 0 THEN (a)[b] ELSE (a)[cardinality(a) + b + 1] END",
    "sort_array": "CASE WHEN a IS NOT NULL THEN ARRAY(SELECT x FROM unnest(a) AS u(x) ORDER BY x) END",
    "sort_array_desc": "CASE WHEN a IS NOT NULL THEN "
    "ARRAY(SELECT x FROM unnest(a) AS u(x) ORDER BY x DESC) END",
    "array_contains": "CASE WHEN b IS NOT NULL THEN b = ANY(a) END",
    "array_join": "array_to_string(a, b)",
    "array_min": "(SELECT min(x) FROM unnest(a) AS u(x))",
    "array_max": "(SELECT max(x) FROM unnest(a) AS u(x))",
    # strings
    "trim": "btrim(a, ' ')",
    "ltrim": "ltrim(a, ' ')",
    "rtrim": "rtrim(a, ' ')",
    "trim_of": "btrim(a, b)",
    "ltrim_of": "ltrim(a, b)",
    "rtrim_of": "rtrim(a, b)",
    "left": "left(a, greatest(b, 0))",  # PostgreSQL's left(s, -1) is all but the last
    "right": "right(a, greatest(b, 0))",
    "space": "repeat(' ', a)",
    "instr": "strpos(a, b)",
    "startswith": "starts_with(a, b)",
    "endswith": "right(a, length(b)) = b",
    "contains": "strpos(a, b) > 0",
    "chr": "CASE WHEN a < 0 THEN '' ELSE chr(CAST(a % 256 AS INTEGER)) END",
    "hex_string": "upper(encode(convert_to(a, 'UTF8'), 'hex'))",
    "md5": "md5(convert_to(a, 'UTF8'))",
    "octet_length": "length(convert_to(a, 'UTF8'))",
    "bit_length": "length(convert_to(a, 'UTF8')) * 8",
    # an empty delimiter splits nothing in Spark, and part 0 is an error
    "split_part": "CASE WHEN c = 0 THEN viewkeep.fail('the index of SPLIT_PART must not be 0', a) "
    "WHEN b = '' THEN CASE WHEN c IN (1, -1) THEN a WHEN a IS NOT NULL THEN '' END "
    "ELSE split_part(a, b, c) END",
    # dates
    "date_add": "a + b",
    "date_sub": "a - b",
    "add_months": "CAST(a + b * INTERVAL '1 month' AS DATE)",
    "datediff": "a - b",
    **{name: _part(name) for name in ("year", "quarter", "month", "day", "hour", "minute")},
    "second": "CAST(floor(EXTRACT(second FROM a)) AS INTEGER)",
    "dayofyear": _part("doy"),
    "weekofyear": _part("week"),
    "dayofweek": "CAST(EXTRACT(dow FROM a) + 1 AS INTEGER)",  # Spark counts from Sunday = 1
    "weekday": "CAST(EXTRACT(isodow FROM a) - 1 AS INTEGER)",  # and from Monday = 0
    "last_day": "CAST(date_trunc('month', a) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)",
    "second_fraction": "EXTRACT(second FROM a)",
    "unix_seconds": "CAST(floor(EXTRACT(epoch FROM a)) AS BIGINT)",
    "unix_millis": "CAST(floor(EXTRACT(epoch FROM a) * 1000) AS BIGINT)",
    "unix_micros": "CAST(EXTRACT(epoch FROM a) * 1000000 AS BIGINT)",
    **{f"timestamp_{name}": _since_1970(factor) for name, factor in MICROS.items()},
    "unix_date": "a - DATE '1970-01-01'",
    "date_from_unix_date": "DATE '1970-01-01' + a",
}
# what PostgreSQL has nothing for
_REFUSED = {
    "mod_double": ("% of doubles", "CAST to a DECIMAL or an integer type"),
    "sha1": ("SHA1", "MD5(s) or SHA2(s, 256)"),
}


def spell(node: exp.Anonymous) -> Expr | None:
    """The call in PostgreSQL's words, or None where it is none of viewkeep's."""
    name = node.name
    if not name.startswith(PREFIX) or not node.meta_get("made"):
        return None
    name, arguments = name.removeprefix(PREFIX), node.expressions
    if name in _REFUSED:
        what, instead = _REFUSED[name]
        raise Unsupported(f"{what} is not supported on PostgreSQL", hint=instead)
    if name in _BUILT:
        made = _BUILT[name](arguments)
    elif name in _TEMPLATES:
        made = filled(_TEMPLATES[name], arguments)
    else:
        made = exp.Anonymous(this=name, expressions=[a.copy() for a in arguments])
    result, _ = node.meta_get("typed", (t.NULL, True))
    # a numeric has as many digits after its point as it came with, not as its type says
    return exp.Cast(this=made, to=result.sql()) if result.kind == "decimal" else made


# --- functions that depend on how many arguments there are, or on literal ones ---


def _substring(arguments: Sequence[Expr]) -> Expr:
    """Spark counts from the end for a negative start, takes 0 for 1, and may start before the string:
    SUBSTRING('abc', -5, 3) is 'a'."""
    begin = (
        "CASE WHEN b > 0 THEN CAST(b AS BIGINT) - 1 WHEN b < 0 THEN length(a) + CAST(b AS BIGINT) ELSE 0 END"
    )
    first = f"CAST(greatest({begin}, 0) + 1 AS INTEGER)"
    if len(arguments) == 2:
        return filled(f"substr(a, {first})", arguments)
    # no string is longer than this, and the sum of two integers may be
    count = f"CAST(least(greatest({begin} + c - greatest({begin}, 0), 0), 1000000000) AS INTEGER)"
    return filled(f"substr(a, {first}, {count})", arguments)


def _padded(name: str) -> Callable[[Sequence[Expr]], Expr]:
    def made(arguments: Sequence[Expr]) -> Expr:
        fill = "' '" if len(arguments) == 2 else "c"
        return filled(f"{name}(a, greatest(b, 0), {fill})", arguments)

    return made


def _replace(arguments: Sequence[Expr]) -> Expr:
    return filled("replace(a, b, c)", [*arguments, exp.Literal.string("")][:3])


def _round_integer(arguments: Sequence[Expr]) -> Expr:
    return _cast(filled("round(CAST(a AS DECIMAL), b)", arguments[:2]), arguments[2].name)


def _round_decimal(arguments: Sequence[Expr]) -> Expr:
    return _cast(filled("round(a, b)", arguments[:2]), arguments[2].name)


def _round_double(arguments: Sequence[Expr]) -> Expr:
    """Spark rounds the shortest decimal that stands for the double, so 1.005 becomes 1.01. Doubles from 1e16
    on are whole, and PostgreSQL's numerics have room for all of them."""
    near = f"CAST(round(CAST(CAST(a AS TEXT) AS DECIMAL), b) AS {_DOUBLE_TYPE})"
    return filled(f"CASE WHEN abs(a) < {_INFINITY} THEN {near} ELSE a END", arguments)


def _sha2(arguments: Sequence[Expr]) -> Expr:
    return filled(f"encode(sha{arguments[1].name}(convert_to(a, 'UTF8')), 'hex')", arguments[:1])


def _hex(arguments: Sequence[Expr]) -> Expr:
    # sqlglot has another name for to_hex
    digits = exp.Anonymous(this="to_hex", expressions=[filled("CAST(a AS BIGINT)", arguments)])
    return exp.Upper(this=digits)


def _initcap(arguments: Sequence[Expr]) -> Expr:
    """Words are what is between spaces, where PostgreSQL's own has them end at every sign."""
    unicode = '"und-x-icu"'
    word = f"upper(left(x, 1) COLLATE {unicode}) || substr(x, 2)"
    words = f"unnest(string_to_array(lower(a COLLATE {unicode}), ' ')) WITH ORDINALITY AS u(x, n)"
    made = f"(SELECT string_agg({word}, ' ' ORDER BY n) FROM {words})"
    return filled(f"CASE WHEN a = '' THEN a ELSE {made} END COLLATE \"C\"", arguments)


def _substring_index(arguments: Sequence[Expr]) -> Expr:
    count = int(arguments[2].sql())
    parts = "string_to_array(a, b)"
    some = f"[1:{count}]" if count > 0 else f"[greatest(cardinality({parts}) + 1 - {-count}, 1):]"
    return filled(f"array_to_string(({parts}){some}, b)", arguments[:2])


def _date_trunc(arguments: Sequence[Expr]) -> Expr:
    moment = filled("CAST(a AS TIMESTAMP)", arguments[1:])  # of a date it would be one with a time zone
    return exp.Anonymous(this="date_trunc", expressions=[arguments[0].copy(), moment])


def _trunc(arguments: Sequence[Expr]) -> Expr:
    return _cast(_date_trunc(arguments[::-1]), "DATE")


_CODES = {"yyyy": "YYYY", "MM": "MM", "dd": "DD", "HH": "HH24", "mm": "MI", "ss": "SS"}


def _date_format(arguments: Sequence[Expr]) -> Expr:
    codes = [_CODES[p] if p in PATTERN else f'"{p}"' for p in pieces(arguments[1].name) or ()]
    return filled("to_char(a, b)", [arguments[0], exp.Literal.string("".join(codes))])


def _moment_read(arguments: Sequence[Expr], make: str, parts: Sequence[str]) -> Expr:
    """A date or timestamp from a string that has exactly as many digits as the pattern has letters."""
    regex, at, found = "", 1, dict[str, str]()
    for piece in pieces(arguments[1].name) or ():
        width = PATTERN[piece][1] if piece in PATTERN else len(piece)
        if piece in PATTERN:
            found[piece] = f"CAST(substr(a, {at}, {width}) AS INTEGER)"
            regex += f"[0-9]{{{width}}}"
        else:
            regex += "".join(f"[{c}]" if c not in "^\\" else f"\\{c}" for c in piece)
        at += width
    given = ", ".join(found.get(p, "0") for p in parts)
    failed = "viewkeep.fail('this string does not fit the pattern: ' || a, CAST(NULL AS {}))"
    kind = "DATE" if make == "make_date" else "TIMESTAMP"
    text = f"CASE WHEN a ~ b THEN {make}({given}) WHEN a IS NOT NULL THEN {failed.format(kind)} END"
    return filled(text, [arguments[0], exp.Literal.string(f"^{regex}$")])


def _to_date(arguments: Sequence[Expr]) -> Expr:
    return _moment_read(arguments, "make_date", ("yyyy", "MM", "dd"))


def _to_timestamp(arguments: Sequence[Expr]) -> Expr:
    return _moment_read(arguments, "make_timestamp", ("yyyy", "MM", "dd", "HH", "mm", "ss"))


_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _timestampdiff(arguments: Sequence[Expr]) -> Expr:
    """Whole units from one moment to another, towards zero."""
    unit, start, end = arguments
    name = unit.name.upper()
    if name in _SECONDS:
        text = f"CAST(trunc(EXTRACT(epoch FROM (b - a)) / {_SECONDS[name]}) AS BIGINT)"
        return filled(text, [start, end])
    if name not in _MONTHS:
        raise Unsupported(
            f"TIMESTAMPDIFF by {name} is not supported on PostgreSQL", hint="use SECOND, DAY, MONTH or YEAR"
        )
    months = "(EXTRACT(year FROM age(b, a)) * 12 + EXTRACT(month FROM age(b, a)))"
    return filled(f"CAST(trunc({months} / {_MONTHS[name]}) AS BIGINT)", [start, end])


# --- casts ---


def _cast(value: Expr, kind: str) -> Expr:
    return narrowed(exp.Cast(this=value.copy(), to=exp.DataType.build(kind, dialect="spark")))


def narrowed(node: exp.Cast) -> Expr:
    """A cast to TINYINT, which is a SMALLINT here: it must fail for what a TINYINT has no room for."""
    if node.to.this != exp.DataType.Type.TINYINT or isinstance(node.this, exp.Null):
        return node
    return filled("viewkeep.tinyint(CAST(a AS BIGINT))", [node.this])


_INTEGER = r"^[+-]?[0-9]+$"
_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$"
_EXPONENT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+$"
_DOUBLE = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
_DAY = r"^([0-9]{4})(-([0-9]{1,2})(-([0-9]{1,2})([T ].*)?)?)?$"
_MOMENT = r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]*)?)?$"
_LIMITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


def _cast_call(attempt: bool) -> Callable[[Sequence[Expr]], Expr]:
    def made(arguments: Sequence[Expr]) -> Expr:
        source, target = (t.parse(a.name) for a in arguments[1:])
        assert source is not None
        assert target is not None
        return _cast_between(arguments[0], source, target, attempt)

    return made


def _cast_between(value: Expr, source: t.Type, target: t.Type, attempt: bool) -> Expr:
    sql = target.sql().sql("postgres").replace("TIMESTAMPTZ", "TIMESTAMP")
    if source == t.STRING:
        return _from_string(value, target, attempt, sql)
    if source == t.BOOLEAN:
        return filled(f"CAST(CAST(a AS INTEGER) AS {sql})", [value])
    if target == t.BOOLEAN:
        return filled("a <> 0", [value])
    if target.is_integer and source.is_numeric:
        whole = "trunc(a)" if source == t.DOUBLE or source.kind == "decimal" else "a"
        return filled(_within(whole, target, attempt, sql), [value])
    if source == t.DOUBLE and target.kind == "decimal":
        # by the shortest decimal that stands for the double; NULL for what is no number
        shortest = _within("CAST(CAST(a AS TEXT) AS DECIMAL)", target, attempt, sql)
        return filled(f"CASE WHEN a > -{_INFINITY} AND a < {_INFINITY} THEN {shortest} END", [value])
    if target.kind == "decimal":
        return filled(_within("a", target, attempt, sql), [value])
    if target == t.STRING and source == t.TIMESTAMP:
        # PostgreSQL writes the fraction of a second as Spark does, without zeros at its end
        return filled("CAST(a AS TEXT)", [value])
    return filled(f"CAST(a AS {sql})", [value])


def _within(number: str, target: t.Type, attempt: bool, sql: str) -> str:
    """A number in a type that may be too small for it: a failure, or NULL where one was asked for. TINYINT is
    a SMALLINT here, which has room for what a TINYINT has not."""
    if not attempt and target != t.TINYINT:
        return f"CAST({number} AS {sql})"
    if target.is_integer:
        limit = 2 ** _LIMITS[target.kind]
        fits = f"{number} >= -{limit} AND {number} < {limit}"
    else:
        fits = f"abs(round({number}, {target.scale})) < 1e{target.precision - target.scale}"
    failed = "" if attempt else f" WHEN a IS NOT NULL THEN viewkeep.fail('out of range', CAST(NULL AS {sql}))"
    return f"CASE WHEN {fits} THEN CAST({number} AS {sql}){failed} END"


def _from_string(value: Expr, target: t.Type, attempt: bool, sql: str) -> Expr:
    """Only what Spark reads, in Spark's forms."""
    trimmed = exp.Anonymous(this="btrim", expressions=[value.copy(), exp.Literal.string(_BLANKS)])
    failed = f"viewkeep.fail('this string is no {target}: ' || a, CAST(NULL AS {sql}))"
    other = "END" if attempt else f"WHEN a IS NOT NULL THEN {failed} END"
    if target == t.BOOLEAN:
        text = (
            "CASE WHEN lower(a) IN ('t', 'true', 'y', 'yes', '1') THEN TRUE "
            f"WHEN lower(a) IN ('f', 'false', 'n', 'no', '0') THEN FALSE {other}"
        )
        return filled(text, [trimmed])
    if target == t.DOUBLE:
        text = (
            f"CASE WHEN a ~ b THEN CAST(rtrim(a, 'dDfF') AS {sql}) WHEN lower(a) = 'nan' THEN {_NAN} "
            f"WHEN lower(a) IN ('inf', '+inf', 'infinity', '+infinity') THEN {_INFINITY} "
            f"WHEN lower(a) IN ('-inf', '-infinity') THEN -{_INFINITY} {other}"
        )
        return filled(text, [trimmed, exp.Literal.string(_DOUBLE)])
    if target == t.DATE:
        # 2020 and 2020-3 are days as well: what is missing is the first
        day = "split_part(split_part(translate(a, 'T', ' '), ' ', 1) || '-1-1', '-', {})"
        whole = " || '-' || ".join(day.format(n) for n in (1, 2, 3))
        made = f"viewkeep.try_date({whole})" if attempt else f"CAST({whole} AS DATE)"
        return filled(f"CASE WHEN a ~ b THEN {made} {other}", [trimmed, exp.Literal.string(_DAY)])
    if target == t.TIMESTAMP:
        # digits past the sixth are cut, where PostgreSQL would round
        cut = "regexp_replace(translate(a, 'T', ' '), '(\\.[0-9]{6})[0-9]+$', '\\1')"
        text = f"CASE WHEN a ~ b THEN CAST({cut} AS TIMESTAMP) {other}"
        return filled(text, [trimmed, exp.Literal.string(_MOMENT)])
    if target.kind == "decimal":
        exponent = "viewkeep.fail('a decimal with an exponent is not supported: ' || a, CAST(NULL AS {}))"
        number = _within("CAST(a AS DECIMAL)", target, attempt, sql)
        text = f"CASE WHEN a ~ b THEN {number} WHEN a ~ c THEN {exponent.format(sql)} {other}"
        return filled(text, [trimmed, exp.Literal.string(_DECIMAL), exp.Literal.string(_EXPONENT)])
    number = _within("CAST(a AS DECIMAL)", target, attempt, sql)
    return filled(f"CASE WHEN a ~ b THEN {number} {other}", [trimmed, exp.Literal.string(_INTEGER)])


_BUILT: Mapping[str, Callable[[Sequence[Expr]], Expr]] = {
    "substring": _substring,
    "lpad": _padded("lpad"),
    "rpad": _padded("rpad"),
    "replace": _replace,
    "round_integer": _round_integer,
    "round_decimal": _round_decimal,
    "round_double": _round_double,
    "rlike": regexes.rlike,
    "regexp_replace": regexes.replaced,
    "regexp_extract": regexes.extracted,
    "regexp_count": regexes.counted,
    "split": regexes.split,
    "sha2": _sha2,
    "hex_integer": _hex,
    "initcap": _initcap,
    "substring_index": _substring_index,
    "date_trunc": _date_trunc,
    "trunc": _trunc,
    "date_format": _date_format,
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    "timestampdiff": _timestampdiff,
    CAST: _cast_call(attempt=False),
    TRY_CAST: _cast_call(attempt=True),
}
