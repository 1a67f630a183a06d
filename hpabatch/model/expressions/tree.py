"""Row expressions: the syntax tree. `at` is a position in the source, counted from 1."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str | date | datetime | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; a timestamp is naive and in UTC."""

    at: int
    value: Value


@dataclass(frozen=True, slots=True)
class Name:
    """A column; an unquoted name matches in any case."""

    at: int
    name: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Many:
    """AND, OR or `||` of two or more operands."""

    at: int
    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Sums (+ and -) or products (*, / and %), computed from the left.

    `rest`: operators, each with its right operand.
    """

    at: int
    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Unary:
    """`NOT` or `-`."""

    at: int
    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Comparison:
    """`=`, `<>`, `<`, `<=`, `>`, `>=`, IS DISTINCT FROM or IS NOT DISTINCT FROM."""

    at: int
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Is:
    """IS [NOT] NULL, TRUE or FALSE (`value`)."""

    at: int
    operand: Node
    value: bool | None
    negated: bool


@dataclass(frozen=True, slots=True)
class In:
    """[NOT] IN: constants (`values`) and other expressions (`others`)."""

    at: int
    operand: Node
    values: tuple[Literal, ...]
    others: tuple[Node, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Between:
    """[NOT] BETWEEN, both ends inclusive."""

    at: int
    operand: Node
    low: Node
    high: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class Match:
    """[NOT] LIKE, ILIKE, or a regular expression (`~`, and `~*` in any case)."""

    at: int
    operator: str
    operand: Node
    pattern: str
    pattern_at: int
    negated: bool


@dataclass(frozen=True, slots=True)
class Case:
    """CASE and IF; `operand` is what the values after WHEN are compared with."""

    at: int
    operand: Node | None
    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


@dataclass(frozen=True, slots=True)
class Cast:
    """CAST, `::` and TRY_CAST (not strict); `arguments`: precision and scale."""

    at: int
    operand: Node
    type: str
    arguments: tuple[int, ...]
    strict: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function; `name` is a key of `functions.FUNCTIONS`."""

    at: int
    name: str
    arguments: tuple[Node, ...]


Node: TypeAlias = (
    Literal
    | Name
    | Many
    | Chain
    | Unary
    | Comparison
    | Is
    | In
    | Between
    | Match
    | Case
    | Cast
    | Call
)


def children(node: Node) -> tuple[Node, ...]:
    """Return the operands of a node, in their order in the text."""
    match node:
        case Many():
            return node.operands
        case Chain():
            return (node.first, *(operand for _, operand in node.rest))
        case Unary() | Is() | Match() | Cast():
            return (node.operand,)
        case Comparison():
            return (node.left, node.right)
        case In():
            return (node.operand, *node.others)
        case Between():
            return (node.operand, node.low, node.high)
        case Case():
            inner = [part for branch in node.branches for part in branch]
            ends = (node.operand, *inner, node.otherwise)
            return tuple(part for part in ends if part is not None)
        case Call():
            return node.arguments
        case _:
            return ()


def bottom_up(tree: Node) -> list[Node]:
    """Return all nodes, operands before what is made of them; not recursive."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += children(node)
    return found[::-1]


def columns(tree: Node) -> tuple[str, ...]:
    """Return the names of the columns that an expression reads, each once."""
    return tuple(dict.fromkeys(node.name for node in bottom_up(tree) if isinstance(node, Name)))
