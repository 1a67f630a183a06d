"""Row expressions: results, refusals, limits."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.errors import UsageError
from hpabatch.history.expressions import parser
from hpabatch.history.expressions.conditions import condition_on, evaluate, is_true
from hpabatch.history.expressions.parser import (
    MAX_DEPTH,
    MAX_WORDS,
    RESERVED,
    columns,
    compile_condition,
    compile_expression,
)
from hpabatch.history.expressions.tokens import MAX_CHARACTERS, ExpressionError
from hpabatch.history.expressions.typed import (
    ALIASES,
    FUNCTIONS,
    MAX_LEVELS,
    PARTS,
    SYNTAX,
    TYPE_ALIASES,
    TYPES,
)
from tests.effort import effort

ROOT = Path(__file__).parents[3]
ROWS = pl.DataFrame(
    {
        "i": [7, -7, 0, None],
        "j": [2, 2, 0, 3],
        "f": [1.5, -2.5, math.nan, None],
        "s": ["abc", " x-y-z ", "", None],
        "n": ["12", "3.5", "7", None],
        "b": [True, False, None, True],
        "t": [datetime(2024, 2, 29, 13, 4, 5, 678000, UTC)] * 3 + [None],
        "w": [datetime(2024, 2, 29, 23, 4)] * 4,
        "d": [date(2024, 2, 29)] * 4,
        "u": [1, 2, 3, 4],
        "cluster": ["eu", "us", "cluster", ""],
    },
    schema_overrides={"u": pl.UInt8, "t": pl.Datetime("ms", "UTC")},
)


def values(text: str, rows: pl.DataFrame = ROWS) -> list[Any]:
    return evaluate(rows, compile_expression(text, rows.schema)).to_list()


def plain(items: list[Any]) -> list[Any]:
    """Return values that can be compared: numbers to 9 digits, NaN as a string."""
    found = []
    for item in items:
        number = isinstance(item, int | float | Decimal) and not isinstance(item, bool)
        value = float(item) if number else item
        is_nan = isinstance(value, float) and math.isnan(value)
        found.append("NaN" if is_nan else round(value, 9) if isinstance(value, float) else value)
    return found


AS_BEFORE = r"""
i*1.5|f*1.5|f>1.5|i/2|i/j|i/0|i*j|u*i|u*300|u+200|i%j|i%2|i%0|f%2|MOD(i,2)|-i|-f|i=1.5|s||i|s||f
s||b|s||t|s||NULL|CONCAT(s,i,b)|CONCAT(s,NULL)|CONCAT(i)|i IN (7,0)|i IN (7,NULL)|i NOT IN (7,NULL)
i IN (7.0,1.5)|f IN (1.5)|f IN (1,2)|s IN ('abc',NULL)|b IN (TRUE)|i IN (i, j)|7 IN (i, j)
d = DATE '2024-02-29'|t > DATE '2024-01-01'|w > TIMESTAMP '2024-02-29 23:00:00'|ROUND(f)|ROUND(f,1)
ROUND(i)|FLOOR(f)|CEIL(f)|FLOOR(i)|TRUNC(f)|ABS(i)|ABS(u)|SIGN(i)|SIGN(f)|SQRT(i)|SQRT(f)|POW(i,2)
POW(f,2)|EXP(i)|LN(j)|LOG10(j)|LOG2(j)|GREATEST(i,j)|GREATEST(i,f)|GREATEST(s,n)|GREATEST(i,NULL,j)
LEAST(i,j)|LENGTH(s)|UPPER(s)|LOWER(s)|TRIM(s)|LTRIM(s)|RTRIM(s)|LTRIM(s,'ax ')|RTRIM(s,'c ')
REPLACE(s,'-','+')|SUBSTR(s,2)|SUBSTR(s,2,2)|SUBSTR(s,0,2)|SUBSTR(s,-1,3)|SUBSTR(s,-1)|LEFT(s,2)
LEFT(s,-1)|LEFT(s,j)|RIGHT(s,2)|RIGHT(s,-1)|STARTS_WITH(s,'a')|ENDS_WITH(s,'c')|STARTS_WITH(s,n)
SPLIT_PART(s,'-',1)|SPLIT_PART(s,'-',2)|SPLIT_PART(s,'-',-1)|SPLIT_PART(s,'-',9)|REGEXP_LIKE(s,'^a')
REGEXP_LIKE(s,'^A','i')|REGEXP_REPLACE(s,'([a-x])(.)','<$1\2\1$\\>')
STRPOS(s,'x')|CAST(n AS DOUBLE)
TRY_CAST(s AS DOUBLE)|CAST(i AS TEXT)|CAST(f AS TEXT)|TRY_CAST(f AS INT)|CAST(b AS INT)
CAST(i AS BOOLEAN)|CAST(t AS TEXT)|CAST(t AS BIGINT)|CAST(t AS DATE)|CAST(d AS TIMESTAMP)
CAST('2024-01-01' AS DATE)|TRY_CAST('abc' AS DATE)|CAST('2024-01-01 10:00:00' AS TIMESTAMP)
CAST(5 AS DECIMAL)|CAST(1.239 AS DECIMAL(10,2))|n::double/60|NOT b|b AND NULL|b OR NULL|b = 1
b > FALSE|b + 1|i <=> NULL|i IS DISTINCT FROM j|i IS NOT DISTINCT FROM j|i = NULL|i IS NULL
CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' END|CASE WHEN b THEN 1 ELSE 'x' END
CASE WHEN b THEN 1 ELSE 2.5 END|CASE i WHEN 7 THEN 1 ELSE 0 END|CASE WHEN b THEN i ELSE f END
CASE WHEN b THEN NULL ELSE i END|IF(b,1,2)|COALESCE(i,j)|COALESCE(i,f)|COALESCE(i,'x')
COALESCE(NULL,NULL)|NULLIF(i,7)|NULLIF(s,'')|IFNULL(i,1)|s LIKE 'a%'|s LIKE '%c'|s LIKE '%b%'
s LIKE 'a_c'|s LIKE 'A%'|s ILIKE 'A%'|s LIKE ''|s LIKE '%'|s NOT LIKE '%'|s LIKE 'a.c'|s LIKE 'abc'
s LIKE 'a%c'|s LIKE 'a\%'|s ~ '^a'|s ~* '^A'|s !~ '^a'|s RLIKE 'b'|s NOT REGEXP 'b'
EXTRACT(YEAR FROM t)|EXTRACT(QUARTER FROM t)|EXTRACT(MONTH FROM t)|EXTRACT(WEEK FROM t)
EXTRACT(DAY FROM t)|EXTRACT(DOY FROM t)|EXTRACT(DOW FROM t)|EXTRACT(ISODOW FROM t)
EXTRACT(HOUR FROM t)|EXTRACT(MINUTE FROM t)|EXTRACT(SECOND FROM t)|EXTRACT(EPOCH FROM t)
EXTRACT(YEAR FROM d)|DATE_PART('hour', t)|i BETWEEN 0 AND 7|i BETWEEN 7 AND 0|i NOT BETWEEN 0 AND 7
i BETWEEN NULL AND -1|s > 'a'|"i"|`i`|1=1|7/2*2|2*3.5|u*u|u = -1|u BETWEEN -1 AND 3|f = f|f < 5
i || j|1 + 2 || '7'::int|i > 0 AND b OR s = ''|NOT i > 0 AND NOT b|-i + j * 2 - 1 % j|NULL + 1
"""
DOCUMENTED = [
    "1 + 2 || '7'::int"
]  # `||` binds tighter than `+` in both, so this is refused by both


def corpus() -> list[str]:
    texts = AS_BEFORE.replace("||", "\1").replace("\n", "|").split("|")
    return [text.replace("\1", "||") for text in texts if text.strip("|")]


@pytest.mark.parametrize("text", [text for text in corpus() if text not in DOCUMENTED])
def test_results_are_those_of_polars_sql(text: str) -> None:
    before = ROWS.with_columns(pl.sql_expr(text).alias("found"))["found"].to_list()
    assert plain(values(text)) == plain(before)


OTHERWISE: dict[str, list[Any]] = {
    "u*200": [200, 400, 600, 800],
    "-u": [-1, -2, -3, -4],
    "LENGTH(s) - 10": [-7, -3, -10, None],
    "CAST(i AS TINYINT) * 100": [700, -700, 0, None],
    "EXTRACT(HOUR FROM t) * 100": [1300, 1300, 1300, None],
    "b IS TRUE": [True, False, False, True],
    "b IS NOT TRUE": [False, True, True, False],
    "b IS FALSE": [False, True, False, False],
    "b IS NOT FALSE": [True, False, True, True],
    "ROUND(2.5)": [2.0] * 4,
    "RIGHT(s,9)": ["abc", " x-y-z ", "", None],
    "SUBSTR(s,2,-1)": ["", "", "", None],
    "SUBSTR(s, STRPOS(s, '-') + 1)": ["abc", "y-z ", "", None],
    "POW(2,i)": [128.0, 2**-7, 1.0, None],
    "t > TIMESTAMP '2024-02-29 13:00:00'": [True, True, True, None],
    "t = TIMESTAMP '2024-02-29 14:04:05.678+01:00'": [True, True, True, None],
    "t < w": [True, True, True, None],
    "i IN (NULL)": [None] * 4,
    "NULL IN (1)": [None] * 4,
    "d IN (DATE '2024-02-29', NULL)": [True] * 4,
    "LENGTH(NULL)": [None] * 4,
    "CASE WHEN NULL THEN 1 ELSE 2 END": [2] * 4,
    "CLUSTER = 'us'": [False, True, False, False],
    '"cluster"': ["eu", "us", "cluster", ""],
    "TRY_CAST('2024-01-01T10:00:00.5' AS TIMESTAMP)": [datetime(2024, 1, 1, 10, 0, 0, 500_000)] * 4,
    "NULLIF(w, TIMESTAMP '2024-02-29 23:04:00')": [None] * 4,
    "CASE WHEN b THEN t END = TIMESTAMP '2024-02-29 13:04:05.678'": [True, None, None, None],
    "IF(b, t, w) > TIMESTAMP '2024-02-29 20:00:00'": [False, True, True, None],
    "COALESCE(t, w) = w": [False, False, False, True],
    "GREATEST(t, w) = w": [True] * 4,
    "i > -9223372036854775808": [True, True, True, None],
    "0.5 * 0.25": [0.125] * 4,
    "i / 3.0": [7 / 3, -7 / 3, 0.0, None],
}


@pytest.mark.parametrize("text", OTHERWISE)
def test_what_is_different_on_purpose(text: str) -> None:
    assert plain(values(text)) == plain(OTHERWISE[text])


SAME = [
    ("a OR b AND NOT c = d", "a OR (b AND (NOT (c = d)))"),
    ("a + b * c - d", "(a + (b * c)) - d"),
    ("a || b = c", "(a || b) = c"),
    ("-a::int", "-(a::int)"),
    ("a = b IS NULL", "(a = b) IS NULL"),
    ("NOT a IN (1)", "NOT (a IN (1))"),
    ("a NOT BETWEEN 1 AND b OR c", "(a NOT BETWEEN 1 AND b) OR c"),
    ("a != 1 and b == 2", "a <> 1 AND b = 2"),
    ("a -- no\n + /* b */ 1", "a + 1"),
    ("cluster = 'x'", "\"cluster\" = 'x'"),
    ("substring(a, 1)", "SUBSTR(a, 1)"),
    ("IF(a, 1, 2)", "CASE WHEN a THEN 1 ELSE 2 END"),
    ("DATE_PART('hour', t)", "EXTRACT(HOUR FROM t)"),
    ("date + left", '"date" + "left"'),
    ("CAST(a AS DOUBLE PRECISION)", "a::float8"),
    ("CAST(a AS DECIMAL(5, 2))", "a::numeric(5,2)"),
    ("NOT a LIKE 'x%' OR b", "(NOT (a LIKE 'x%')) OR b"),
]


@pytest.mark.parametrize(("text", "same"), SAME)
def test_precedence_and_spellings(text: str, same: str) -> None:
    schema = dict.fromkeys([*"abcdt", "cluster", "date", "left"], pl.Null())
    assert compile_expression(text, schema).meta.eq(compile_expression(same, schema))


def test_columns_are_named_once_in_their_order() -> None:
    text = 'COALESCE(b, a) + `c``d` * CASE WHEN a THEN "e""f" END'
    assert columns(text) == ("b", "a", "c`d", 'e"f')
    text = "-a IS NULL AND b IN (c, 1) AND d BETWEEN e AND f::int"
    assert columns(text) == ("a", "b", "c", "d", "e", "f")


WRONG = {
    "": (1, "expected a value, got the end"),
    "a b": (3, "expected an operator or the end, got 'b'"),
    "a = 'x": (5, "expected the end of the string that begins"),
    'a = "x': (5, "expected the end of the quoted name that begins"),
    "a; DROP TABLE x": (2, "expected one expression, got ';'"),
    "a = \0": (5, "unexpected character '\\x00'"),
    "a = \u2019x\u2019": (5, "(RIGHT SINGLE QUOTATION MARK)"),
    "a\u00a0= 1": (2, "(NO-BREAK SPACE)"),
    "a = 12abc": (7, "expected an operator after the number, got 'abc'"),
    "a < b < c": (7, "comparisons do not chain"),
    "a IS NULL < b": (11, "comparisons do not chain"),
    "a IS 5": (6, "expected NULL, TRUE, FALSE or DISTINCT FROM, got '5'"),
    "a LIKE b": (8, "expected a pattern in quotes after LIKE, got 'b'"),
    "a LIKE 'x!%' ESCAPE '!'": (14, "ESCAPE"),
    "a IN (1 2)": (9, "expected a comma or ), got '2'"),
    "a IN (SELECT b FROM c)": (7, "subqueries and tables are not possible"),
    "(WITH x AS (SELECT 1) SELECT 1)": (2, "subqueries and tables are not possible"),
    "a FROM read_csv('x')": (3, "expected an operator or the end, got 'FROM'"),
    "read_csv('x')": (1, "unknown function 'read_csv'"),
    "SUM(a) > 1": (1, "unknown function 'SUM' at character 1: it looks at other rows"),
    "1 + max(a)": (5, "GREATEST compare values of one row"),
    "COUNT(*)": (1, "looks at other rows"),
    "ABS(a) OVER (ORDER BY b)": (8, "expected an operator or the end, got 'OVER'"),
    "LPAD(a, 2000000000, 'x')": (1, "unknown function 'LPAD'"),
    "LOWR(a)": (1, "unknown function 'LOWR' at character 1; did you mean LOWER?"),
    "LOWER(a, b)": (1, "expected LOWER(string), got 2 arguments"),
    "CAST(a AS INTEGR)": (11, "did you mean INTEGER?"),
    "CAST(a AS DECIMAL(99))": (19, "expected a precision from 1 to 38, got '99'"),
    "EXTRACT(YEER FROM t)": (9, "did you mean YEAR?"),
    "DATE '2026-13-01'": (6, "expected a DATE such as '2026-10-07', got '2026-13-01'"),
    "TIMESTAMP 'now'": (11, "expected a TIMESTAMP such as '2026-10-07 14:03:00', got 'now'"),
    "a AND END": (7, 'write "END" if it is a column'),
    "a // b": (4, "write TRUNC(a / b)"),
    "1e999": (1, "expected a number of at most 1.8e308"),
    "\uff2f\uff32 = 1 \uff4f\uff52 a": (8, "expected an operator or the end"),
    "a \u017fN b": (3, "expected an operator or the end"),  # its capital is an S
    "a = '\ud800'": (6, "expected UTF-8, got '\\ud800'"),
    "TIMESTAMP '0001-01-01 00:00:00+14:00'": (11, "expected a TIMESTAMP such as"),
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_and_where(text: str) -> None:
    at, told = WRONG[text]
    with pytest.raises(ExpressionError) as refused:
        columns(text)
    assert told in str(refused.value)
    assert f"at character {at}" in str(refused.value)
    assert refused.value.at == at
    assert "\n" not in str(refused.value)


LARGE = {
    "+".join("a" * (MAX_WORDS // 2 + 2)): f"at most {MAX_LEVELS} operators",
    " AND ".join("a" * (MAX_WORDS // 2 + 2)): f"at most {MAX_WORDS:,} names",
    " " * (MAX_CHARACTERS + 1): f"at most {MAX_CHARACTERS:,} characters",
    "(" * 1_000_000: f"at most {MAX_DEPTH} levels",
    "NOT " * 250_000: f"at most {MAX_WORDS:,} names",
    "NOT " * 1000 + "a": f"at most {MAX_LEVELS} operators",
    "- " * 1000 + "a": f"at most {MAX_LEVELS} operators",
    "a" + "::int" * 200_000: f"at most {MAX_LEVELS} operators",
    "a" + " IS NULL" * 100_000: f"at most {MAX_LEVELS} operators",
    "ABS(" * 200_000: f"at most {MAX_DEPTH} levels",
    "CASE WHEN " * 100_000: f"at most {MAX_DEPTH} levels",
    "'" * 1_000_001: "the end of the string",
    "/*" + "x" * 1_000_000: "the end of the comment that begins",
    "9" * 1_000_000: "a number of at most 1.8e308",
    f"{'LOWER' * 41}(a)": "docs/expressions.md lists the functions",
}


@pytest.mark.parametrize("text", LARGE, ids=range(len(LARGE)))
def test_limits(text: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        columns(text)
    assert LARGE[text] in str(refused.value)
    assert len(str(refused.value)) < 300


def test_values_of_all_lists_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MAX_VALUES", 4)
    columns("a IN (1, 2) OR a IN ('x', NULL)")
    with pytest.raises(ExpressionError, match="expected at most 4 values after IN at character 29"):
        columns("a IN (1, 2) OR a IN (1, 2, 3)")


def test_the_deepest_that_is_allowed() -> None:
    inner = MAX_DEPTH - 1
    assert columns("(" * inner + "a" + ")" * inner) == ("a",)
    assert len(columns("a OR b AND c = d + e * ABS(" * 25 + "f" + ")" * 25)) == 6


WORDS = [
    "a", "'x'", "1", "(", ")", ",", "+", "-", "*", "/", "%", "=", "<", "IS", "NULL", "NOT", "IN",
    "LIKE", "BETWEEN", "AND", "OR", "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "AS", "int",
    "::", "||", "~", "SELECT", "LOWER", "ROUND", "--", "/*", "*/", '"', "`", "'", ".",
]  # fmt: skip


@settings(max_examples=effort(150))
@given(st.text(max_size=30) | st.lists(st.sampled_from(WORDS), max_size=15).map(" ".join))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    at = None
    try:
        columns(text)
    except ExpressionError as error:
        at = error.at
    assert at is None or 1 <= at <= len(text) + 1


REFUSED = {
    "nope = 1": "unknown column 'nope' at character 1",
    "clustr = 'x'": "unknown column 'clustr' at character 1; did you mean cluster?",
    'cluster = "eastern"': "at character 11; a string stands in 'single quotes'",
    '"I" = 5': "unknown column 'I' at character 1; did you mean i?",
    "s > 5": "cannot compare a string with a number at character 3; write CAST(x AS DOUBLE)",
    "1 IN ('x')": "cannot compare a number with a string at character 7",
    "t > '2024-01-01'": "at character 3; write TIMESTAMP '2026-10-07 14:03:00'",
    "i AND b": "expected a condition after AND, got a number that begins at char",
    "NOT s": "expected a condition after NOT, got a string that begins at character 5",
    "CASE WHEN i THEN 1 END": "expected a condition after WHEN",
    "IF(b, t, 5)": "cannot choose between a time and a number at character 1",
    "COALESCE(t, s)": "cannot choose between a time and a string at character 1",
    "NULLIF(t, 5)": "cannot compare a time with a number at character 1",
    "i IS TRUE": "expected a condition before IS",
    "CONCAT(l, s)": "expected a column of numbers, strings or times, got a list or another type",
    "GREATEST(1, l)": "that begins at character 13",
    "s || l": "that begins at character 6",
    "cluster ('x')": "unknown function 'cluster' at character 1: it is a column",
    "clustr('x')": "unknown function 'clustr' at character 1; did you mean cluster?",
    "s + 1": "expected a number, got a string that begins at character 1; write CAST",
    "t - t": "at character 1; EXTRACT(EPOCH FROM x) gives seconds",
    "UPPER(i)": "expected a string, got a number that begins at character 7; write",
    "EXTRACT(HOUR FROM d)": "expected a timestamp, got a time that begins at character 19",
    "EXTRACT(YEAR FROM s)": "expected a timestamp, got a string that begins at character 19; write",
    "COALESCE(t, 1)": "at character 1",
    "LEFT(s, 1.5)": "at character 9",
    "ROUND(f, 99)": "expected a constant from 0 to 15 as argument 2 of ROUND at character 10",
    "SPLIT_PART(s, '', 1)": "expected a separator and a part from 1 to 1000",
    "REPLACE(s, '', 'x')": "expected a string to replace, got '' at character 12",
    "REPLACE(s, n, 'x')": "expected a constant string as argument 2 of REPLACE at character 12",
    "s ~ '('": "expected a regular expression, got unclosed group at character 5",
    "REGEXP_LIKE(s, 'x', 'q')": "expected flags among i, m, s and x, got 'q' at character 16",
    "s ~ '(\\w{90}){90}'": "size limit",
    f"s ~ '{'x' * 1001}'": "expected a pattern of at most 1000 characters, got 1,001",
    f"s LIKE '{'_' * 1001}'": "expected a pattern of at most 1000 characters",
    " OR ".join(["s ~ 'x'"] * 101): "expected at most 100 patterns, got more",
    "+".join("i" * 500): "expected at most 400 operators or branches of CASE in a chain, got more",
    f"CASE {'WHEN b THEN 1 ' * 500}END": "expected at most 400 operators or branches of CASE",
    "%".join("i" * 30): "expected at most 100,000 operations, got more",
    "||".join("s" * 101): "expected at most 100,000 bytes in a string (1,000 for a column)",
    "REPLACE(" * 3 + "s" + ", 's', 'ssssssssss')" * 3: "at most 100,000 bytes in a string",
    "REGEXP_REPLACE(s, '.*', '" + r"\0" * 100 + "')": "at most 100,000 bytes in a string",
    f"CONCAT(s, '{'x' * 100_001}')": "at most 100,000 bytes in a string",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        compile_expression(text, {**ROWS.schema, "l": pl.List(pl.String())})
    assert REFUSED[text] in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_condition_is_true_or_false() -> None:
    for text, kind in {"i": "a number", "'x'": "a string", "NULL": "NULL"}.items():
        with pytest.raises(ExpressionError, match=f"expected a condition, got {kind} that"):
            compile_condition(text, ROWS.schema)
    found = is_true(ROWS, compile_condition("i > 0 OR b", ROWS.schema), "it")
    assert found.to_list() == [True, False, False, True]
    assert is_true(ROWS, compile_condition("TRUE", ROWS.schema), "it").to_list() == [True] * 4
    assert len(is_true(ROWS.clear(), compile_condition("TRUE", ROWS.schema), "it")) == 0


def test_a_value_that_cannot_be_converted_is_a_sentence() -> None:
    condition = condition_on("CAST(s AS INT) = 1", ROWS.schema, "--where")
    with pytest.raises(UsageError, match=r"--where: conversion from .* give a condition on i, j"):
        is_true(ROWS, condition, "--where")


def test_other_types_of_columns() -> None:
    rows = pl.DataFrame(
        {
            "k": pl.Series(["a", None], dtype=pl.Categorical), "l": [[1], [2]], "z": [None, None],
            "m": pl.Series([2**64 - 1, 1], dtype=pl.UInt64),
            "c": pl.Series([Decimal("1.50"), None], dtype=pl.Decimal(10, 2)),
        }
    )  # fmt: skip
    assert values("UPPER(k) = 'A'", rows) == [True, None]
    assert values("l IS NULL", rows) == [False, False]
    assert values("z + 1", rows) == [None, None]
    assert values("m > 5", rows) == [True, False]
    assert values("c * 2", rows) == [3.0, None]
    assert values("c = 1.5", rows) == [True, None]
    with pytest.raises(ExpressionError, match=r"expected a column of .*, got a list"):
        compile_expression("l = 1", rows.schema)
    with pytest.raises(pl.exceptions.PolarsError):
        values("m + 1", rows)  # not silently wrapped


def test_strings_as_timestamps() -> None:
    forms = [
        "2024-02-29", "2024-02-29 13:04", "2024-02-29T13:04", "2024-02-29 13:04:05",
        "2024-02-29T13:04:05.5", "2024-02-29T13:04:05Z", "29.02.2024", "2024-02-30",
    ]  # fmt: skip
    found = values("TRY_CAST(x AS TIMESTAMP)", pl.DataFrame({"x": forms}))
    assert found[:3] == [datetime(2024, 2, 29), *[datetime(2024, 2, 29, 13, 4)] * 2]
    assert found[3:5] == [datetime(2024, 2, 29, 13, 4, 5, half) for half in (0, 500_000)]
    assert found[5:] == [None] * 3


def test_a_long_chain_is_refused_with_a_small_stack() -> None:
    code = """if True:
        import polars
        from hpabatch.history.expressions.parser import compile_expression
        try:
            compile_expression("%".join(["i"] * 19_000), {"i": polars.Int64()})
        except ValueError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (2**20, 2**20)),
    )  # fmt: skip
    assert (done.returncode, done.stdout[:11]) == (0, "expected at"), done.stderr


def test_long_conditions() -> None:
    names = pl.DataFrame({"hpa": [f"hpa-{k}" for k in range(50)]})
    terms = " OR ".join(f"hpa = 'hpa-{2 * k}'" for k in range(2000))
    listed = ",".join(f"'hpa-{2 * k}'" for k in range(30_000))
    for text in (terms, f"hpa IN ({listed})"):
        assert sum(values(text, names)) == 25
    assert values("+".join("i" * 200)) == [1400, -1400, 0, None]
    branches = " ".join(f"WHEN hpa = 'hpa-{k}' THEN {k}" for k in range(200))
    assert values(f"CASE {branches} END", names) == list(range(50))


def test_every_name_is_documented_and_works() -> None:
    page = (ROOT / "docs" / "expressions.md").read_text()
    names = [*FUNCTIONS, *ALIASES, *SYNTAX, *TYPES, *TYPE_ALIASES, *PARTS, *RESERVED]
    assert [name for name in names if name not in page] == []
    for part in PARTS:
        assert values(f"EXTRACT({part} FROM w)")[0] is not None
