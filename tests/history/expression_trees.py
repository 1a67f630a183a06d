"""Random expressions: trees of tuples, printed with and without needless parentheses."""

from __future__ import annotations

import random
from typing import Any, TypeAlias

from hypothesis import strategies as st

Tree: TypeAlias = tuple[Any, ...]

NUMBERS, STRINGS, CONDITIONS = ("i", "j", "f"), ("s", "t"), ("b", "c")
_LEVELS = {"OR": 1, "AND": 2, "NOT": 3, "IS": 4, "COMPARE": 5, "SUM": 6, "PRODUCT": 7, "MINUS": 8,
           "JOIN": 9, "CAST": 10}  # fmt: skip
_ATOM = 11


def numbers(depth: int) -> st.SearchStrategy[Tree]:
    constants = st.integers(-9, 9) | st.sampled_from([0.5, 2.25, 1e3])
    leaves = constants.map(lambda v: ("constant", v)) | _names(NUMBERS)
    if not depth:
        return leaves
    inner = numbers(depth - 1)
    return st.one_of(
        leaves,
        st.tuples(st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner),
        inner.filter(lambda tree: tree[0] != "constant").map(lambda tree: ("minus", tree)),
        st.tuples(st.just("case"), conditions(depth - 1), inner, inner),
        st.tuples(st.just("call"), st.sampled_from(["COALESCE", "GREATEST"]), inner, inner),
        st.tuples(st.just("call"), st.just("ABS"), inner),
        st.tuples(st.just("call"), st.just("LENGTH"), strings(depth - 1)),
    )


def strings(depth: int) -> st.SearchStrategy[Tree]:
    letters = st.text("ab'%_-", max_size=3)
    leaves = letters.map(lambda v: ("constant", v)) | _names(STRINGS)
    if not depth:
        return leaves
    inner = strings(depth - 1)
    return st.one_of(
        leaves,
        st.tuples(st.just("join"), inner, inner),
        st.tuples(st.just("call"), st.just("UPPER"), inner),
        st.tuples(st.just("call"), st.just("COALESCE"), inner, inner),
        st.tuples(st.just("case"), conditions(depth - 1), inner, inner),
    )


def conditions(depth: int) -> st.SearchStrategy[Tree]:
    leaves = st.sampled_from([True, False, None]).map(lambda v: ("constant", v)) | _names(
        CONDITIONS
    )
    if not depth:
        return leaves
    inner = conditions(depth - 1)
    both = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"])
    return st.one_of(
        leaves,
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner),
        inner.map(lambda tree: ("NOT", tree)),
        st.tuples(both, numbers(depth - 1), numbers(depth - 1)),
        st.tuples(both, strings(depth - 1), strings(depth - 1)),
        st.tuples(st.just("is"), inner, st.sampled_from([None, True, False]), st.booleans()),
        st.tuples(st.just("in"), numbers(depth - 1), _listed(st.integers(-3, 3)), st.booleans()),
        st.tuples(st.just("in"), strings(depth - 1), _listed(st.text("ab", max_size=2)),
                  st.booleans()),
        st.tuples(st.just("between"), *[numbers(depth - 1)] * 3, st.booleans()),
        st.tuples(st.just("like"), strings(depth - 1), st.text("ab%_", max_size=4), st.booleans()),
    )  # fmt: skip


def _names(names: tuple[str, ...]) -> st.SearchStrategy[Tree]:
    return st.sampled_from(names).map(lambda name: ("column", name))


def _listed(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    return st.lists(values | st.none(), min_size=1, max_size=3).map(tuple)


def printed(tree: Tree, chance: random.Random) -> str:
    """Return a text of a tree, with the parentheses that it needs and some more."""
    return _printed(tree, 0, chance)


def _printed(tree: Tree, least: int, chance: random.Random) -> str:
    text, level = _text(tree, chance)
    if level < least or chance.random() < 0.1:
        return f"({text})"
    return text


def _text(tree: Tree, chance: random.Random) -> tuple[str, int]:
    def part(inner: Tree, least: int) -> str:
        return _printed(inner, least, chance)

    word = str.lower if chance.random() < 0.3 else str
    match tree:
        case ("constant", value):
            negative = isinstance(value, int | float) and value < 0
            return _constant(value), _LEVELS["MINUS"] if negative else _ATOM
        case ("column", name):
            return chance.choice([name, f'"{name}"', f"`{name}`"]), _ATOM
        case ("+" | "-" | "*" | "/" | "%" as operator, left, right):
            level = _LEVELS["SUM" if operator in "+-" else "PRODUCT"]
            return f"{part(left, level)} {operator} {part(right, level + 1)}", level
        case ("minus", inner):
            return f"- {part(inner, _LEVELS['JOIN'])}", _LEVELS["MINUS"]
        case ("join", left, right):
            return f"{part(left, 10)} || {part(right, 10)}", _LEVELS["JOIN"]
        case ("case", when, then, other):
            parts = f"{part(when, 0)} THEN {part(then, 0)} ELSE {part(other, 0)}"
            return f"{word('CASE')} WHEN {parts} END", _ATOM
        case ("call", name, *arguments):
            return f"{word(name)}({', '.join(part(a, 0) for a in arguments)})", _ATOM
        case ("AND" | "OR" as kind, left, right):
            level = _LEVELS[kind]
            return f"{part(left, level + 1)} {word(kind)} {part(right, level + 1)}", level
        case ("NOT", inner):
            return f"{word('NOT')} {part(inner, 3)}", _LEVELS["NOT"]
        case ("is", inner, value, negated):
            no = "NOT " if negated else ""
            return f"{part(inner, 5)} {word('IS')} {no}{_constant(value)}", _LEVELS["IS"]
        case ("in", inner, values, negated):
            listed = ", ".join(_constant(value) for value in values)
            return f"{part(inner, 6)} {'NOT ' if negated else ''}IN ({listed})", _LEVELS["COMPARE"]
        case ("between", inner, low, high, negated):
            no = "NOT " if negated else ""
            ends = f"{part(low, 6)} {word('AND')} {part(high, 6)}"
            return f"{part(inner, 6)} {no}BETWEEN {ends}", _LEVELS["COMPARE"]
        case ("like", inner, pattern, negated):
            no = "NOT " if negated else ""
            return f"{part(inner, 6)} {no}LIKE '{pattern}'", _LEVELS["COMPARE"]
        case (operator, left, right):
            level = _LEVELS["IS" if operator.startswith("IS") else "COMPARE"]
            return f"{part(left, 6)} {operator} {part(right, 6)}", level
    raise AssertionError(tree)


def _constant(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        quotes = value.replace("'", "''")
        return f"'{quotes}'"
    return repr(value)
