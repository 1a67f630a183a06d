"""Keyword arguments of methods: those of a request."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Final, Protocol, TypeVar

from hpabatch.errors import UsageError
from hpabatch.history.base import History
from hpabatch.model.options import REQUIRED, Option, Request, keyword

R = TypeVar("R")
Q = TypeVar("Q", bound=Request)


def takes(kind: type[Request], *first: str, method: bool = True) -> Callable[[Any], Any]:
    """Return a decorator for a function of a request, or a method whose first argument is one.

    Callers give the options instead: the fields `first` by position (a field of several values
    takes all that are left, or a list), the others by keyword. What else the function takes without
    a default comes before them.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        declared = inspect.signature(function)
        own = [p for p in [*declared.parameters.values()][1 + method :] if p.name != "progress"]
        names = {p.name for p in own}
        lead = [p.name for p in own if p.default is inspect.Parameter.empty]

        @functools.wraps(function)
        def call(*values: Any, **given: Any) -> R:
            owner, values = values[:method], values[method:]
            unnamed = [name for name in lead if name not in given]
            rest = dict(zip(unnamed, values, strict=False))
            values = values[len(rest) :]
            rest |= {name: given.pop(name) for name in [*given] if name in names}
            return function(*owner, kind.of(_given(kind, first, values, given)), **rest)

        shown = signature(kind, first, own, declared.return_annotation)
        if not method:
            _, *parameters = shown.parameters.values()  # (without self)
            shown = shown.replace(parameters=parameters)
        call.__signature__ = shown  # type: ignore[attr-defined]
        call.request, call.first, call.own = kind, first, own  # type: ignore[attr-defined]
        return call

    return decorate


class HasHistory(Protocol):
    """What has an open history."""

    history: History


def of_history(
    function: Callable[Concatenate[History, Q, ...], R], kind: type[Q], *first: str
) -> Callable[..., R]:
    """Return a function of a history and a request as a method of what has one; as `takes`.

    A `progress` that the function takes is none of the method's.
    """

    @functools.wraps(function)
    def method(self: HasHistory, request: Q, **own: Any) -> R:
        return function(self.history, request, **own)

    found: Callable[..., R] = takes(kind, *first)(method)
    return found


def _given(
    kind: type[Request], first: Sequence[str], values: Sequence[Any], given: dict[str, Any]
) -> dict[str, Any]:
    found = dict(given)
    if values and isinstance(values[-1], list | tuple):
        values = (*values[:-1], *values[-1])
    for place, name in enumerate(first):
        several = kind.options()[name].kind in ("texts", "paths")
        taken = values[place:] if several else values[place : place + 1]
        if taken and keyword(name) in given:
            raise UsageError(f"{keyword(name)}: expected once, got by position and by keyword")
        if taken:
            found[keyword(name)] = tuple(taken) if several else taken[0]
        values = values if not several else values[:place]
    if len(values) > len(first):
        raise UsageError(f"expected {len(first)} arguments by position, got {len(values)}")
    return found


def signature(
    kind: type[Request], first: Sequence[str], own: Sequence[inspect.Parameter], returns: Any
) -> inspect.Signature:
    """Return the signature that callers see."""
    declared = kind.options()
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    parameters += [p for p in own if p.default is inspect.Parameter.empty]
    for name in first:
        several = declared[name].kind in ("texts", "paths")
        place = inspect.Parameter.VAR_POSITIONAL if several else inspect.Parameter.POSITIONAL_ONLY
        annotation = "str" if several else type_of(declared[name])
        parameters.append(inspect.Parameter(name, place, annotation=annotation))
    for name, option in declared.items():
        if name not in first:
            default = inspect.Parameter.empty if option.default is REQUIRED else option.default
            parameters.append(
                inspect.Parameter(
                    keyword(name),
                    inspect.Parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=type_of(option),
                )
            )
    parameters += [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in own
        if p.default is not inspect.Parameter.empty
    ]
    return inspect.Signature(parameters, return_annotation=returns)


TYPES: Final = {
    "text": "str",
    "texts": "str | Sequence[str]",
    "path": "str | PathLike[str]",
    "paths": "str | PathLike[str] | Sequence[str | PathLike[str]]",
    "flag": "bool",
    "number": "int",
    "real": "float",
    "duration": "str | timedelta",
    "factors": "str | float | Sequence[float]",
    "grids": "str | Sequence[str] | Mapping[str, Any]",
    "time": "str | datetime",
}


def type_of(option: Option) -> str:
    """Return the type of a keyword argument, as source."""
    choice = option.kind == "choice"
    found = f"Literal[{', '.join(map(repr, option.values))}]" if choice else TYPES[option.kind]
    return f"{found} | None" if option.default is None else found
