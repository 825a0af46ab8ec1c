"""Functions and casts as PostgreSQL and Spark have them: random arguments, one statement each.

Every form of a dialect is called with many arguments; the server evaluates all calls in one
statement. Sees: another value or another scale of a decimal, an error where the server has a value,
a value where it has an error, and a function that is offered and never asked for.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.amount import cases

import deltafix.sql
from deltafix.kernel.jit import JIT_DISABLED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CALLS = 3 if JIT_DISABLED else max(8, cases(8))  # fewer are values of no form of some

POOLS = {
    "T": "''|'a'|'abc'|'aXbXc'|'hello wORLD, 3x'|'é ü'|NULL::TEXT|'xxaxx'|'a,b,,c'|' a '|'日本語'|"
    "'a b'|'Straße'|'-'|'x'|'12'|'AbC'|'İI'|'ΑΣ ΟΣ'|'a\n b'|' \t a'",
    "N": "0|1|-1|7|-12|100|NULL::INT|18|97|2147483647|-2147483648",
    "Y": "0|1|2|5|6|9|-1|-2|-5|-6|-9|NULL::INT|2147483647",
    "K": "0|1|2|3|5|-1|-2|NULL::INT",
    "F": "0.0::DOUBLE|1.5::DOUBLE|-2.25::DOUBLE|1e10::DOUBLE|'inf'::DOUBLE|'-inf'::DOUBLE|"
    "'nan'::DOUBLE|NULL::DOUBLE|0.5::DOUBLE|-3::DOUBLE|8.0::DOUBLE|1e300::DOUBLE|1e-300::DOUBLE|"
    "2.5::DOUBLE|-0.5::DOUBLE|1::DOUBLE|-1::DOUBLE|1e16::DOUBLE|123456789.125::DOUBLE|1e15::DOUBLE|"
    "1e-5::DOUBLE|0.0001::DOUBLE|1e22::DOUBLE|1e6::DOUBLE|12345678::DOUBLE|0.001::DOUBLE",
    "G": "0.15::DOUBLE|2.675::DOUBLE|-1.005::DOUBLE|2.5::DOUBLE|0.49999999999999994::DOUBLE|"
    "55555.678::DOUBLE|-15::DOUBLE|1e300::DOUBLE|'inf'::DOUBLE|'nan'::DOUBLE|NULL::DOUBLE|"
    "3.5::DOUBLE|-2.5::DOUBLE|1e18::DOUBLE|4503599627370497.5::DOUBLE",
    "L": "0.0::DOUBLE|1.5::DOUBLE|-2.25::DOUBLE|NULL::DOUBLE|0.5::DOUBLE|-3::DOUBLE|8.0::DOUBLE|"
    "1::DOUBLE|-1::DOUBLE|2::DOUBLE|0.1::DOUBLE",
    "D": "DATE '2026-01-31'|DATE '2024-02-29'|DATE '2025-12-29'|DATE '1969-07-20'|NULL::DATE|"
    "DATE '0001-01-01'|DATE '9999-12-31'|DATE '1900-02-28'",
    "M": "TIMESTAMP '2026-01-31 10:20:30.5'|TIMESTAMP '2024-02-29 23:59:59.999999'|"
    "TIMESTAMP '1969-07-20 00:00:00'|TIMESTAMP '1969-01-01 00:00:00.0005'|"
    "TIMESTAMP '2025-01-01 00:00:00.0015'|NULL::TIMESTAMP|TIMESTAMP '2026-03-01 00:00:00.000001'|"
    "TIMESTAMP '0001-01-01 00:00:00'|TIMESTAMP '9999-12-31 23:59:59.999999'",
    "P": "1.25|-1.75|100.00|NULL::DECIMAL(6,2)|95.25|0.50|-0.05|999.99|12.5|0.001|123456789.123|"
    "-7.125::DECIMAL(9,4)|95.00::DECIMAL(4,2)|0.0",
    "I": "INTERVAL '40' DAY|INTERVAL '-1' YEAR|INTERVAL '1' MONTH|INTERVAL '0' DAY|"
    "INTERVAL '-13' MONTH|INTERVAL '36' HOUR|INTERVAL '1' SECOND",
    "B": "TRUE|FALSE|NULL::BOOLEAN",
    "A": "ARRAY[1, 2, NULL, 2]|ARRAY[3]|NULL::INT[]|ARRAY[NULL, 1, 0]",
    "E": "ARRAY['a', NULL, 'b', 'a']|ARRAY['', 'x']|NULL::TEXT[]",
    "H": "'-'|''|'abc'|'a'|'X'|'b'|'xa'|NULL::TEXT|'日'|' '|'%'|','",
    "W": "'a%'|'%b_'|'a!%%'|'_'|'%!_%'|'%a%b%'|'!!%'|'A_c'|NULL::TEXT",
    "Z": "'7'|'1.5'|'2.5'|'-1.5'|'.5'|'1.'|'.'|''|'1e3'|'125e-1'|'1e-400'|'1e400'|'+1'|'1_000'|"
    "'0x1F'|' 12 '|'32768'|'9223372036854775807'|'nan'|'inf'|'Infinity'|'1 0'|'true'|'t'|' no '|"
    "'off'|'2026-01-31'|'2026-1-5'|'2026-01-31 10:20:30.5'|'2026-01-31T10:20'|'2026-02-30'|'x'|"
    "'2026-01-31 24:00:00'|'99999.995'|'-0'|'007'|'1e'|'1d'|'12\n'",
    "V": "0::SMALLINT|-7::SMALLINT|32767::SMALLINT|NULL::SMALLINT",
    "Q": "9223372036854775807::BIGINT|-9223372036854775807::BIGINT|0::BIGINT|12345678901::BIGINT|"
    "NULL::BIGINT|-5::BIGINT",
    "C": "0|9|65|233|8364|128512|-1|1114111|1114112|55296|NULL::INT|256|955",
    "X": "'\\x61'::BYTEA|'\\x'::BYTEA|NULL::BYTEA|'\\xc3a9'::BYTEA|'\\x00ff'::BYTEA|"
    "'\\x27225c'::BYTEA",
    "J": """'{"a": {"b": [1.50, 1e5, null, {}]}, "bb" : "x\u00e9\\n", "0": [ ]}'|'{"a":'|"""
    """'{"a": 12345678901234567890123, "b": 1, "a":  2}'|'"q"'|'null'|NULL::TEXT|"""
    """'[{"a": 1}, 1e-7]'|' [1, [2, true] ] '|'{"b":{"a":"q"},"aa":1,"ab":{"b":0}}'|"""
    """'{"a": [-0.0, 1e22, 100.0, "0"], "b": null}'""",
    "S": "'a'|'b'|0|1|-1|'bb'|'0'|'c'",
    "s": "{}|{a}|{a,b}|{0}|{0,a}|{a,b,1}|{a,-1}|{1,1}|{b,a}",
    "p": "$|$.a|$.a.b|$.a.b[1]|$[0]|$[1][1]|$.b|$.a[2]|$.b.a|$[0].a|$.a[3]|$.ab",
    "t": "'2026-01-31'|'2026-1-5'|' 2026-01-31'|'2026-02-30'|'2026-01-31 10:20:30'|'31/1/26'|"
    "'1/12/99'|'31.01.2026'|'20260131'|'2026-01-31 24:00:00'|'29.02.2023'|'29.02.2024'|''|'x'|"
    "'12026-01-31'|'2026-01-31 9:00:00'|'2026-01-31 00:00:60'|'01/02/03'|'01.12.0007'|NULL::TEXT|"
    "'20261301'|'2026-12-01 23:59:59'|'1/2/2003'",
    "k": "0|1|2|-1|-2|-400|400|20",
    "U": "'year'|'quarter'|'month'|'week'|'day'|'hour'|'minute'|'second'|'millisecond'|"
    "'microsecond'|'decade'",
}
"""Arguments, in PostgreSQL's spelling; `spelt` writes them in another dialect's."""

BOTH = (
    *("LPAD({T},{Y})", "LPAD({T},{K},{H})", "RPAD({T},{K})", "RPAD({T},{K},{H})"),
    *("TRANSLATE({T},{T},{H})", "CONCAT_WS({H},{T},{T})", "CONCAT_WS({H},{T},{N})"),
    *("REVERSE({T})", "REPEAT({T},{K})", "SUBSTRING({T},{Y})", "SUBSTRING({T},{Y},{Y})"),
    *("SUBSTRING({T} FROM {K} FOR {K})", "SUBSTRING({T} FROM {K})", "LEFT({T},{Y})"),
    *("RIGHT({T},{Y})", "UPPER({T})", "LOWER({T})", "TRIM({T})", "LTRIM({T})", "RTRIM({T})"),
    *("TRIM(BOTH {H} FROM {T})", "TRIM(LEADING {H} FROM {T})", "TRIM(TRAILING {H} FROM {T})"),
    *("ASCII({T})", "CHR({C})", "BIT_LENGTH({T})", "OCTET_LENGTH({T})", "MD5({T})"),
    *("SPLIT_PART({T},{H},{K})", "POSITION({H} IN {T})", "REPLACE({T},{H},{H})", "LENGTH({T})"),
    *("CHAR_LENGTH({T})", "INITCAP({T})", "CONCAT({T},{H})", "CONCAT({T},{N},{D})"),
    *("CONCAT({T},{B})", "{T} || {H}", "{T} || {N}", "{T} || {D}", "{T} || {P}", "{T} || {M}"),
    *("{T} || {F}", "{T} LIKE {W}", "{T} NOT LIKE {W} ESCAPE '!'", "{T} ILIKE {W}"),
    *("COALESCE({T},{H})", "COALESCE({N},{P})", "COALESCE({N},{F})", "NULLIF({N},{K})"),
    *("NULLIF({T},{T})", "GREATEST({N},{K},{P})", "LEAST({T},{H})", "GREATEST({F},{F})"),
    *("LEAST({D},{D},{D})", "GREATEST({M},{M})", "{B} AND {B}", "{B} OR {B}", "NOT {B}"),
    *("{N} + {K}", "{Y} * {K}", "{V} - {N}", "{Q} + {K}", "{P} + {P}", "{P} * {K}", "{P} - {N}"),
    *("{N} / {K}", "{F} / {F}", "{N} % {K}", "{P} % {K}", "{F} * {F}", "- {K}", "- {P}"),
    *("{P} < {N}", "{F} < {F}", "{F} = {F}", "{P} = {N}", "{T} < {T}", "{D} < {D}", "{M} >= {M}"),
    *("{N} IS DISTINCT FROM {K}", "{N} BETWEEN {K} AND {N}", "{N} IN ({K}, {K}, 7)"),
    *("CASE WHEN {B} THEN {N} ELSE {P} END", "CASE {K} WHEN 1 THEN {T} WHEN {K} THEN 'k' END"),
    *("ABS({N})", "ABS({P})", "ABS({F})", "SIGN({N})", "SIGN({P})", "SIGN({F})"),
    *("CEIL({P})", "CEIL({G})", "CEIL({N})", "FLOOR({P})", "FLOOR({G})", "FLOOR({N})"),
    *(f"ROUND({{P}},{n})" for n in (0, 1, 2, 3, -1, -2, -400, 400)),
    *("ROUND({P})", "ROUND({G})", "ROUND({N})", "SQRT({F})", "SQRT({K})", "EXP({F})", "LN({F})"),
    *("LOG({F})", "POWER({L},{L})", "POWER({L},{K})", "CBRT({F})", "SIN({L})", "COS({L})"),
    *("TAN({L})", "COT({L})", "ASIN({L})", "ACOS({L})", "ATAN({F})", "ATAN2({F},{F})"),
    *("SINH({L})", "COSH({L})", "TANH({F})", "ASINH({L})", "ACOSH({L})", "ATANH({L})"),
    *("DEGREES({L})", "RADIANS({L})", "PI()", "FACTORIAL({K})", "{N} & {K}", "{N} | {K}"),
    *("{N} << {K}", "{N} >> {K}", "~({N})"),
    *("EXTRACT(YEAR FROM {D})", "EXTRACT(QUARTER FROM {M})", "EXTRACT(MONTH FROM {D})"),
    *("EXTRACT(DAY FROM {M})", "EXTRACT(HOUR FROM {M})", "EXTRACT(MINUTE FROM {M})"),
    *("EXTRACT(DOY FROM {D})", "EXTRACT(WEEK FROM {D})", "EXTRACT(DOW FROM {D})"),
    *("DATE_PART('year',{D})", "DATE_PART('week',{M})", "DATE_TRUNC({U},{M})"),
    *("DATE_TRUNC({U},{D})", "{D} + {I}", "{M} - {I}", "{M} + {I}", "{D} - {D}"),
    *("{D} + {K}", "{D} - {K}", "MAKE_DATE(2024,{K},{K})", "MAKE_DATE(2024,2,{N})"),
    *("ROUND({P},-1) || ''", "CEIL({P}) || ''", "CAST(CAST({P} AS DECIMAL(12,1)) AS TEXT)"),
    *("CARDINALITY({A})", "{A} = {A}", "{A} <> {A}"),
)
"""Forms of both dialects; a letter stands for an argument of its pool."""

OF_POSTGRES = (
    *("STARTS_WITH({T},{H})", "STRPOS({T},{H})", "BTRIM({T},{H})", "LTRIM({T},{H})"),
    *("RTRIM({T},{H})", "CONCAT({T},{F})", "MOD({N},{K})"),
    *(f"TRUNC({{P}},{n})" for n in (0, 1, 2, 3, -1, -2, -400, 400)),
    *("TRUNC({P})", "TRUNC({G})", "LOG(2.0,{K})", "LOG10({F})", "GCD({Y},{K})", "LCM({K},{K})"),
    *("{N} # {K}", "EXTRACT(ISODOW FROM {D})", "EXTRACT(ISOYEAR FROM {D})"),
    *("EXTRACT(DECADE FROM {M})", "EXTRACT(EPOCH FROM {D})", "EXTRACT(EPOCH FROM {M})"),
    *("EXTRACT(EPOCH FROM {M} - {M})", "{M} - {M} > INTERVAL '30' MINUTE", "{T} ~~ {W}"),
    *("ARRAY_LENGTH({A},1)", "({A})[{K}]", "({A})[{K}:{K}]", "{K} = ANY({A})"),
    *("ARRAY_APPEND({A},{K})", "ARRAY_PREPEND({K},{A})", "ARRAY_CAT({A},{A})"),
    *("ARRAY_POSITION({A},{K})", "ARRAY_REMOVE({A},{K})", "ARRAY_TO_STRING({E},{H})"),
    *("ARRAY_TO_STRING({A},',')", "{A} || {K}", "{A} || {A}", "{A} @> {A}", "{A} && {A}"),
    *("TO_CHAR({D},'YYYY-MM-DD')", "TO_CHAR({M},'HH24:MI:SS.US')", "{T} || {B}"),
    *("(({J})::jsonb->{S})::TEXT", "(({J})::json->{S})::TEXT", "({J})::jsonb->>{S}"),
    *("({J})::json->>{S}", "({J})::jsonb#>>'{s}'", "({J})::json#>>'{s}'", "{T} || {B}"),
    *("(({J})::jsonb#>'{s}')::TEXT", "(({J})::json#>'{s}')::TEXT", "({J})::json->'a'->>{S}"),
    *("JSONB_EXTRACT_PATH_TEXT(({J})::jsonb,'a','b')", "({J})::jsonb->'a'->'b'->>{S}"),
    *("JSON_EXTRACT_PATH_TEXT(({J})::json,'a','0')", "JSONB_EXTRACT_PATH_TEXT(({J})::jsonb,'0')"),
    *("JSONB_EXTRACT_PATH(({J})::jsonb,'a')::TEXT", "(({J})::jsonb->'a')::jsonb->>'b'"),
    *("LENGTH({X})", "{X} || {X}", "MD5({X})", "EXTRACT(EPOCH FROM TO_TIMESTAMP({P}))"),
)
OF_SPARK = (
    *("STARTSWITH({T},{H})", "ENDSWITH({T},{H})", "CONTAINS({T},{H})", "INSTR({T},{H})"),
    *("LOCATE({H},{T})", "SUBSTR({T},{Y},{K})", "UCASE({T})", "LCASE({T})"),
    *("SHA1({T})", "SHA2({T},256)", "SHA2({T},{K})", "HEX({T})", "UNHEX({T})", "BASE64({X})"),
    *("UNBASE64('YQ==')", "ENCODE({T},'UTF-8')", "DECODE({X},'UTF-8')", "{N} DIV {K}"),
    *("MOD({N},{K})", "ROUND({N},-1)", "ROUND({G},{k})", "LOG2({F})", "LOG10({F})", "LOG(2,{K})"),
    *("{N} ^ {K}", "POW({L},{K})", "SIGNUM({F})", "CEILING({P})", "IF({B},{N},{P})"),
    *("NVL({N},{K})", "IFNULL({T},{H})", "NVL2({N},{K},{Y})", "{N} <=> {K}", "{T} <=> {T}"),
    *("YEAR({D})", "QUARTER({D})", "MONTH({M})", "DAY({D})", "DAYOFMONTH({D})", "HOUR({M})"),
    *("MINUTE({M})", "DAYOFWEEK({D})", "DAYOFYEAR({D})", "WEEKOFYEAR({M})", "LAST_DAY({D})"),
    *("DATE_ADD({D},{K})", "DATE_SUB({D},{K})", "ADD_MONTHS({D},{K})", "DATEDIFF({D},{D})"),
    *(
        "TRUNC({D},'month')",
        "DAYNAME({D})",
        "MONTHNAME({D})",
        "UNIX_TIMESTAMP({M})",
        "NVL2({T},{N},{K})",
    ),
    *("DATE_FORMAT({M},'yyyy-MM-dd')", "SIZE({A})", "ARRAY_CONTAINS({A},{K})", "({A})[{K}]"),
    *("ARRAY_POSITION({A},{K})", "ARRAY_REMOVE({A},{K})", "ARRAY_DISTINCT({A})"),
    *("SORT_ARRAY({A})", "ARRAY_SORT({A})", "ARRAY_UNION({A},{A})", "ARRAY_INTERSECT({A},{A})"),
    *("ARRAY_EXCEPT({A},{A})", "ARRAYS_OVERLAP({A},{A})", "ARRAY_JOIN({E},{H})"),
    *("ARRAY_MAX({A})", "ARRAY_MIN({A})", "SLICE({A},{K},{K})", "ARRAY_APPEND({A},{K})"),
    *("ARRAY_PREPEND({A},{K})", "CONCAT({A},{A})", "FLATTEN(ARRAY({A},{A}))", "REVERSE({A})"),
    *("TRANSFORM({A}, x -> x + 1)", "FILTER({A}, x -> x > 1)", "SEQUENCE(1,{K})"),
    *("TO_DATE({t},'yyyy-MM-dd')", "TO_DATE({t},'d/M/yy')", "TO_DATE({t},'dd.MM.yyyy')"),
    *("TO_DATE({t},'yyyyMMdd')", "TO_DATE({t})", "YEAR(TO_DATE({t},'dd.MM.yyyy'))"),
    *("CAST(TO_TIMESTAMP({t},'yyyy-MM-dd HH:mm:ss') AS TEXT)",),
    *("DATE_FORMAT(TO_TIMESTAMP({t},'dd/MM/yy'),'yyyy-MM-dd HH:mm')",),
    *("GET_JSON_OBJECT({J},'{p}')", "SPLIT({T},'b')", "SHIFTLEFT({N},{K})", "SHIFTRIGHT({N},{K})"),
)
KINDS = {
    "B": "BOOLEAN", "V": "SMALLINT", "N": "INT", "Q": "BIGINT", "P": "DECIMAL(8,2)", "G": "DOUBLE",
    "F": "DOUBLE", "Z": "TEXT", "D": "DATE", "M": "TIMESTAMP", "X": "BYTEA",
}  # fmt: skip
"""Pools that are cast, and what to."""
CASTS = tuple(
    f"CAST({{{pool}}} AS {kind})"
    for pool in KINDS
    for kind in dict.fromkeys((*KINDS.values(), "DECIMAL(18,0)", "DECIMAL(5,4)"))
)


def spelt(call: str, dialect: str) -> str:
    """A call in a dialect's spelling."""
    if dialect == "postgres":
        return call.replace("DOUBLE", "DOUBLE PRECISION")
    call = re.sub(r"ARRAY\[([^]]*)\]", r"ARRAY(\1)", call)
    call = call.replace("INT[]", "ARRAY<INT>").replace("TEXT[]", "ARRAY<STRING>")
    call = re.sub(r"\bTIMESTAMP\b", "TIMESTAMP_NTZ", call).replace("TEXT", "STRING")
    call = call.replace("NULL::BYTEA", "CAST(NULL AS BINARY)").replace("::BYTEA", "")
    call = call.replace("'\\x", "X'").replace("BYTEA", "BINARY")
    return f"TRY_{call}" if call.startswith("CAST(") else call


def calls(dialect: str, seed: int) -> Iterator[tuple[str, str]]:
    """Forms of a dialect, each with calls of it, no call twice."""
    random = Random(f"dialects {dialect} {seed}")
    own = OF_POSTGRES if dialect == "postgres" else OF_SPARK
    for form in (*BOTH, *own, *CASTS):
        seen = set()
        for _ in range(CALLS * (3 if re.search(r"\{[Zt]\}", form) else 1)):
            call = re.sub(
                r"\{(\w)\}", lambda found: random.choice(POOLS[found[1]].split("|")), form
            )
            if call not in seen:
                seen.add(call)
                yield form, spelt(call, dialect)


BY_VALUE = ("COALESCE({N},{P})", "GREATEST({N},{K},{P})", "CASE WHEN {B} THEN {N} ELSE {P} END")
"""Of numbers of several types: a NUMERIC of PostgreSQL keeps the digits of each."""
WITHOUT = ("{D} - {D}", "ROUND({P},400)", "TRUNC({P},400)")
"""What has no value here: an INTERVAL, and more digits than a DECIMAL has."""
_REFUSED = "refused"
_ERROR = "an error"
ATTEMPT = """
CREATE OR REPLACE FUNCTION pg_temp.attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
  EXECUTE 'SELECT json_build_array(pg_typeof(x), to_json(x), x::text)::text FROM (SELECT '
    || call || ' AS x) AS one' INTO found;
  RETURN found;
EXCEPTION WHEN OTHERS THEN RETURN json_build_array('error', SQLSTATE, SQLERRM)::text;
END $$
"""


def plain(value: Any, *, exact: bool = True) -> Any:
    """A value as it is compared: a DECIMAL with its digits, of a float what libraries share."""
    if isinstance(value, float):
        return repr(value) if not math.isfinite(value) else float(f"{value:.13g}") + 0.0
    if isinstance(value, Decimal):
        return f"{value:f}" if exact else value.normalize()
    if isinstance(value, bytes | bytearray):
        return f"\\x{bytes(value).hex()}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def answer(db: deltafix.sql.Connection, call: str, *, exact: bool = True) -> Any:
    """What a call gives here."""
    try:
        return plain(db.execute(f"SELECT {call} AS x").fetchall()[0][0], exact=exact)
    except deltafix.sql.NotSupportedError:
        return _REFUSED
    except deltafix.sql.DatabaseError:
        return _ERROR


def of_postgres(kind: str, value: Any, text: str, ours: Any, *, exact: bool) -> Any:
    """What PostgreSQL answers, as it is compared with ours."""
    if value is None:
        return None
    if kind == "numeric" and (isinstance(ours, float) or text == "NaN"):
        return plain(float(text))
    if kind == "numeric":
        return int(text) if isinstance(ours, int) else plain(Decimal(text), exact=exact)
    if kind == "double precision":
        return plain(float(value))
    if kind.startswith("timestamp"):
        day, _, clock = value.removesuffix("+00:00").partition("T")
        whole, _, part = clock.partition(".")
        return f"{day}T{whole}" + (f".{part:0<6}" if part else "")
    return value


BEYOND = re.compile(r".* BC|\d{5,}-.*|-?infinityT?|nan", re.IGNORECASE)
"""Values of PostgreSQL that no type has here: refused, each with an error."""
LOOSE = re.compile(
    r"CAST\('.*' AS (?:DATE|TIMESTAMP)\)|CAST\('0x1F' AS DOUBLE PRECISION\)", re.DOTALL
)
"""Texts that PostgreSQL reads and that are an error here: a day is in ISO 8601."""


def test_oracle_functions_and_casts_are_those_of_postgres(postgres: str) -> None:
    import psycopg

    every = list(calls("postgres", 0))
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute("SET TimeZone = 'UTC'")
        server.execute(ATTEMPT)
        asked = "unnest(%s::text[]) WITH ORDINALITY AS u (call, n) ORDER BY n"
        asked = f"SELECT pg_temp.attempt(call) FROM {asked}"
        rows = server.execute(asked, [[call for _, call in every]]).fetchall()
    seen: dict[str, Counter[str]] = {form: Counter() for form, _ in every}
    with closing(deltafix.sql.connect(dialect="postgres")) as db:
        for (form, call), (row,) in zip(every, rows, strict=True):
            kind, value, text = json.loads(row, parse_float=Decimal)
            ours = answer(db, call, exact=form not in BY_VALUE)
            if kind == "error":
                # 42883: there is no such function of these types
                assert ours in (_ERROR, _REFUSED) or value == "42883", (call, text, ours)
                seen[form]["error"] += 1
                continue
            wanted = of_postgres(kind, value, text, ours, exact=form not in BY_VALUE)
            beyond = isinstance(wanted, str) and BEYOND.fullmatch(wanted)
            beyond = beyond or ",400)" in call or LOOSE.fullmatch(call)
            assert ours == wanted or (ours == _ERROR and beyond), (call, wanted, ours)
            seen[form]["value"] += 1
    assert not {form for form, one in seen.items() if not one["value"]} - {*WITHOUT, *CASTS}
    assert sum(one["error"] for one in seen.values()) > 100


ODD = re.compile(r"X'00ff' AS STRING|'32768' AS (?:DATE|TIMESTAMP)|'0001-01-01|'12026-")
"""Bytes that are no text are replaced in Spark, years go on there, and PySpark loses the first."""


@pytest.mark.spark
def test_oracle_functions_and_casts_are_those_of_spark(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    with closing(deltafix.sql.connect(dialect="spark")) as db:
        every = {
            call: (form, answer(db, call))
            for form, call in calls("spark", 0)
            if not ODD.search(call)
        }
    valued = [call for call, (_, ours) in every.items() if ours not in (_ERROR, _REFUSED)]
    seen: dict[str, Counter[str]] = {form: Counter() for form, _ in every.values()}
    try:
        # NULL where ANSI mode breaks off, as in this dialect
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.conf.set("spark.sql.legacy.sizeOfNull", "false")
        shown = ", ".join(f"{call} AS c{place}" for place, call in enumerate(valued))
        (row,) = spark.sql(f"SELECT {shown}").collect()
        for call, value in zip(valued, row, strict=True):
            form, ours = every[call]
            assert ours == plain(value), (call, plain(value), ours)
            seen[form]["value"] += 1
        spark.conf.set("spark.sql.ansi.enabled", "true")
        for call in every.keys() - set(valued):
            try:
                ((value,),) = spark.sql(f"SELECT {call}").collect()
            except (PySparkException, ValueError):  # a year that Python has not
                value = None
            assert value is None or every[call][0] in WITHOUT, (call, value)
            seen[every[call][0]]["error"] += 1
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.unset("spark.sql.legacy.sizeOfNull")
    assert not {form for form, one in seen.items() if not one["value"]} - {*WITHOUT, *CASTS}
    assert sum(one["error"] for one in seen.values()) > 50
