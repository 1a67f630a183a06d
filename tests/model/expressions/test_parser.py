"""The grammar of row expressions: trees, positions of errors, limits."""

from __future__ import annotations

import random
from datetime import date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.model.expressions import parser as expressions
from hpabatch.model.expressions.functions import ALIASES, FUNCTIONS, REFUSED, SYNTAX
from hpabatch.model.expressions.parser import RESERVED, parse_expression
from hpabatch.model.expressions.tokens import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NODES,
    ExpressionError,
)
from hpabatch.model.expressions.tree import Call, In, Literal, Many, Name, columns
from tests.model.expression_trees import Tree, as_tree, printed, trees

SAME = [
    ("a OR b AND NOT c = d", "a OR (b AND (NOT (c = d)))"),
    ("a + b * c - d", "(a + (b * c)) - d"),
    ("a - b - c", "(a - b) - c"),
    ("-a * b", "(-a) * b"),
    ("-a || b", "-(a || b)"),
    ("+a * b", "a * b"),
    ("1 + 2 || 'x'", "1 + (2 || 'x')"),
    ("a || b = c", "(a || b) = c"),
    ("-a::int", "-(a::int)"),
    ("a = b IS NULL", "(a = b) IS NULL"),
    ("NOT a IN (1)", "NOT (a IN (1))"),
    ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
    ("a NOT BETWEEN 1 AND b OR c", "(a NOT BETWEEN 1 AND b) OR c"),
    ("a % b * c", "(a % b) * c"),
    ("a != 1 and b == 2", "a <> 1 AND b = 2"),
    ("a -- no\n + /* b */ 1", "a + 1"),
    ("cluster = 'x'", "\"cluster\" = 'x'"),
    ("substring(a, 1)", "SUBSTR(a, 1)"),
    ("IF(a, 1, 2)", "CASE WHEN a THEN 1 ELSE 2 END"),
    ("DATE_PART('hour', t)", "EXTRACT(HOUR FROM t)"),
    ("date + left", '"date" + "left"'),
    ("CAST(a AS DOUBLE PRECISION)", "a::float8"),
    ("CAST(a AS DECIMAL(5, 2))", "a::numeric(5,2)"),
    ("CAST(a AS DECIMAL(5))", "a::decimal ( 5 )"),
    ("a <=> b", "a IS NOT DISTINCT FROM b"),
    ("NOT a LIKE 'x%' OR b", "(NOT (a LIKE 'x%')) OR b"),
]


@pytest.mark.parametrize(("text", "same"), SAME)
def test_precedence_and_spellings(text: str, same: str) -> None:
    assert as_tree(parse_expression(text)) == as_tree(parse_expression(same))


def test_constants() -> None:
    values = {
        "5": 5, "-5": -5, "+5": 5, "1.5": 1.5, ".5": 0.5, "1e3": 1000.0, "'it''s'": "it's",
        "NULL": None, "true": True, "9223372036854775807": 2**63 - 1, "99999999999999999999": 1e20,
        "DATE '2026-02-28'": date(2026, 2, 28), "''": "",
        "TIMESTAMP '2026-02-28 10:00:00'": datetime(2026, 2, 28, 10),
        "TIMESTAMP '2026-02-28 10:00:00+02:00'": datetime(2026, 2, 28, 8),
    }  # fmt: skip
    for text, value in values.items():
        tree = parse_expression(text)
        assert isinstance(tree, Literal)
        assert (type(tree.value), tree.value) == (type(value), value)


def test_columns_are_named_once_in_their_order() -> None:
    text = 'COALESCE(b, a) + `c``d` * CASE WHEN a THEN "e""f" END'
    assert columns(parse_expression(text)) == ("b", "a", "c`d", 'e"f')
    text = "-a IS NULL AND b IN (c, 1) AND d BETWEEN e AND f::int"
    assert columns(parse_expression(text)) == ("a", "b", "c", "d", "e", "f")


WRONG = {
    "": (1, "expected a value, got the end"),
    "a =": (4, "expected a value, got the end"),
    "a b": (3, "expected an operator or the end, got 'b'"),
    "(a": (3, "expected an operator or ), got the end"),
    "a = 'x": (5, "expected the end of the string that begins"),
    'a = "x': (5, "expected the end of the quoted name that begins"),
    "a /* b": (3, "expected the end of the comment that begins"),
    "a; DROP TABLE x": (2, "expected one expression, got ';'"),
    "a = \0": (5, "unexpected character '\\x00'"),
    "a = \u2019x\u2019": (5, "(RIGHT SINGLE QUOTATION MARK)"),
    "a \u2010 b": (3, "(HYPHEN)"),
    "a\u00a0= 1": (2, "(NO-BREAK SPACE)"),
    "a = 12abc": (7, "expected an operator after the number, got 'abc'"),
    "a = 1_000": (6, "expected an operator after the number, got '_000'"),
    "a = 1.2.3": (8, "expected an operator after the number, got '.3'"),
    "a < b < c": (7, "comparisons do not chain"),
    "a IS NULL < b": (11, "comparisons do not chain"),
    "a IS 5": (6, "expected NULL, TRUE, FALSE or DISTINCT FROM, got '5'"),
    "a LIKE b": (8, "expected a pattern in quotes after LIKE, got 'b'"),
    "a LIKE 'x!%' ESCAPE '!'": (14, "ESCAPE"),
    "a IN ()": (7, "expected a value, got ')'"),
    "a IN (1 2)": (9, "expected a comma or ), got '2'"),
    "a IN (SELECT b FROM c)": (7, "subqueries and tables are not possible"),
    "(SELECT 1)": (2, "subqueries and tables are not possible"),
    "EXISTS (SELECT 1)": (1, "subqueries and tables are not possible"),
    "(WITH x AS (SELECT 1) SELECT 1)": (2, "subqueries and tables are not possible"),
    "a FROM read_csv('x')": (3, "expected an operator or the end, got 'FROM'"),
    "read_csv('x')": (1, "it opens files"),
    "SUM(a) > 1": (1, "expected a function of one row, got 'SUM' at character 1"),
    "1 + max(a)": (5, "GREATEST compares the values of one row"),
    "COUNT(*)": (1, "looks at other rows"),
    "ABS(a) OVER (ORDER BY b)": (8, "expected an operator or the end, got OVER"),
    "LPAD(a, 2000000000, 'x')": (1, "it can make a string of any length"),
    "LOWR(a)": (1, "unknown function 'LOWR' at character 1; did you mean LOWER?"),
    "quux(a)": (1, "docs/expressions.md lists the functions"),
    "LOWER()": (1, "expected LOWER(string), got 0 arguments"),
    "LOWER(a, b)": (1, "expected LOWER(string), got 2 arguments"),
    "IF(a, b)": (1, "expected IF(condition, value, value), got 2 arguments"),
    "CAST(a AS INTEGR)": (11, "did you mean INTEGER?"),
    "CAST(a, b)": (7, "expected AS, got ','"),
    "CAST(a AS DECIMAL(99))": (19, "expected a precision from 1 to 38, got '99'"),
    "CASE END": (6, "expected a value, got 'END'"),
    "CASE WHEN a THEN 1": (19, "expected END, got the end"),
    "CASE a ELSE 1 END": (8, "expected WHEN, got 'ELSE'"),
    "EXTRACT(YEER FROM t)": (9, "did you mean YEAR?"),
    "DATE '2026-13-01'": (6, "expected a DATE such as '2026-10-07', got '2026-13-01'"),
    "TIMESTAMP 'now'": (11, "expected a TIMESTAMP such as '2026-10-07 14:03:00', got 'now'"),
    "a AND END": (7, 'write "END" if it is a column'),
    "a // b": (4, "write TRUNC(a / b)"),
    "a & b": (3, "unexpected character '&'"),
    "a.b": (2, "unexpected character '.'"),
    "a ~ b": (5, "expected a pattern in quotes after ~, got 'b'"),
    "1e999": (1, "expected a number of at most 1.8e308"),
    "\uff2f\uff32 = 1 \uff4f\uff52 a": (8, "expected an operator or the end"),
    "a \u017fN b": (3, "expected an operator or the end"),  # its capital is an S
    "a = '\ud800'": (6, "expected UTF-8, got '\\ud800'"),
    "a IN ('b', '\udcff')": (13, "expected UTF-8, got '\\udcff'"),
    "TIMESTAMP '0001-01-01 00:00:00+14:00'": (11, "expected a TIMESTAMP such as"),
    "TIMESTAMP '9999-12-31 23:59:59-14:00'": (11, "expected a TIMESTAMP such as"),
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_and_where(text: str) -> None:
    at, told = WRONG[text]
    with pytest.raises(ExpressionError) as refused:
        parse_expression(text)
    assert told in str(refused.value)
    assert f"at character {at}" in str(refused.value)
    assert refused.value.at == at
    assert "\n" not in str(refused.value)


def test_a_long_name_gets_no_suggestion() -> None:
    with pytest.raises(ExpressionError) as refused:
        parse_expression(f"{'LOWER' * 41}(a)")
    assert "did you mean" not in str(refused.value)


def test_a_flat_chain_is_no_nesting() -> None:
    tree = parse_expression(" OR ".join(f"a = {k}" for k in range(6500)))
    assert isinstance(tree, Many)
    assert len(tree.operands) == 6500


def test_a_list_of_20_000_values() -> None:
    tree = parse_expression(f"a IN ({','.join(f'-{k}' for k in range(20_000))}, b, NULL)")
    assert isinstance(tree, In)
    assert (len(tree.values), len(tree.others)) == (20_001, 1)
    assert tree.values[7].value == -7


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("+".join("a" * (MAX_NODES // 2 + 2)), f"at most {MAX_NODES:,} names"),
        (" " * (MAX_CHARACTERS + 1), f"at most {MAX_CHARACTERS:,} characters"),
        ("(" * 1_000_000, f"at most {MAX_DEPTH} levels"),
        ("NOT " * 250_000, f"at most {MAX_DEPTH} levels"),
        ("- " * 500_000, f"at most {MAX_DEPTH} levels"),
        ("a" + "::int" * 200_000, f"at most {MAX_DEPTH} levels"),
        ("a" + " IS NULL" * 100_000, f"at most {MAX_DEPTH} levels"),
        ("ABS(" * 200_000, f"at most {MAX_DEPTH} levels"),
        ("CASE WHEN " * 100_000, f"at most {MAX_DEPTH} levels"),
        ("'" * 1_000_001, "the end of the string"),
        ("/*" + "x" * 1_000_000, "the end of the comment that begins"),
        ("9" * 1_000_000, "a number of at most 1.8e308"),
        (f"CONCAT({'a,' * 1000}a)", "expected a comma, an operator or ), got ','"),
    ],
    ids=range(13),
)
def test_limits(text: str, told: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        parse_expression(text)
    assert told in str(refused.value)
    assert len(str(refused.value)) < 300


def test_values_of_all_lists_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MAX_VALUES", 4)
    parse_expression("a IN (1, 2) OR a IN ('x', NULL)")
    with pytest.raises(ExpressionError, match="expected at most 4 values after IN at character 29"):
        parse_expression("a IN (1, 2) OR a IN (1, 2, 3)")


def test_the_deepest_that_is_allowed() -> None:
    inner = MAX_DEPTH - 1
    assert parse_expression("(" * inner + "a" + ")" * inner) == Name(MAX_DEPTH, "a")
    tree = parse_expression("a OR b AND c = d + e * ABS(" * inner + "f" + ")" * inner)
    assert len(columns(tree)) == 6


def test_names_of_functions_are_told_apart() -> None:
    assert set(ALIASES.values()) <= set(FUNCTIONS)
    groups = [set(FUNCTIONS), set(ALIASES), set(SYNTAX), set(REFUSED), RESERVED]
    assert sum(map(len, groups)) == len(set[str]().union(*groups))
    for name, function in FUNCTIONS.items():
        assert function.usage.startswith(f"{name}(")
        text = f"{name}({', '.join(['x'] * function.least)})"
        if name != "DATE_PART":
            assert isinstance(parse_expression(text), Call)


@settings(max_examples=75)
@given(trees(), st.randoms(use_true_random=False))
def test_what_is_printed_is_read_back(tree: Tree, chance: random.Random) -> None:
    assert as_tree(parse_expression(printed(tree, chance))) == tree


WORDS = [
    "a", "'x'", "1", "(", ")", ",", "+", "-", "*", "/", "%", "=", "<", "IS", "NULL", "NOT", "IN",
    "LIKE", "BETWEEN", "AND", "OR", "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "AS", "int",
    "::", "||", "~", "SELECT", "LOWER", "ROUND", "--", "/*", "*/", '"', "`", "'", ".",
]  # fmt: skip


@settings(max_examples=60)
@given(st.text(max_size=30) | st.lists(st.sampled_from(WORDS), max_size=15).map(" ".join))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    at = None
    try:
        parse_expression(text)
    except ExpressionError as error:
        at = error.at
    assert at is None or 1 <= at <= len(text) + 1
