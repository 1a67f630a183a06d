"""Requests: the options of a use case, each with a type, a default, checks and a sentence.

A use case declares its options once, as the fields of a frozen dataclass below `Request`; the
command line's options, the keyword arguments of `hpabatch.api` with their stubs, and
docs/reference.md are made from it. Standard library only: `--help` imports nothing else, and a job
keeps a request as JSON to continue.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from os import PathLike, fspath
from typing import Any, Self

from hpabatch.errors import UsageError
from hpabatch.model.times import (
    DURATION_FORM,
    MAX_DURATION_MS,
    parse_duration_ms,
    show_duration,
)

_OPTION = "option"

Spelled = Callable[[str], str]
"""Spelling of an option by a caller: `sync_period`, or `--sync-period`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a request.

    Attributes:
        kind: "text", "texts", "path", "paths", "choice", "flag", "number", "real", "duration",
            "factors" (one or several, kept as a string), "grids" (FIELD=VALUES; of Python also a
            mapping of values by field) or "time" (a string until the history's end is known, see
            `parse_time_ms`).
        help: a complete phrase with the unit; the default follows where it is not plain.
        default: the value where none is given, of a duration in ms.
        unset: what None stands for, such as "as recorded, else 15s".
        metavar: what the command line's help calls the value.
        flag: the command line's name, if it is not made of the field's.
        short: a one-letter name beside it.
        positional: an argument of the command line instead of an option.
        values: the values of a choice.
        minimum, maximum: limits of a number, or of a duration in ms.
        secret: the value is not shown in the request's repr.
    """

    kind: str
    help: str
    default: Any = None
    unset: str = ""
    metavar: str = ""
    flag: str = ""
    short: str = ""
    positional: bool = False
    values: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    secret: bool = False

    def read(self, value: object, name: str) -> object:
        """Return a given value as the field holds it.

        Raises:
            UsageError: another type, form or size is expected.
        """
        if value is None and self.default is None:
            return None
        return _READERS[self.kind](self, value, name)

    def describe(self) -> str:
        """Return the sentence with what None stands for."""
        return f"{self.help}  [default: {self.unset}]" if self.unset else self.help


def _refuse(name: str, expected: str, value: object) -> UsageError:
    shown = repr(value) if isinstance(value, str) else f"{type(value).__name__} {value!r}"
    return UsageError(f"{name}: expected {expected}, got {shown}")


def _read_text(option: Option, value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _refuse(name, "a string", value)
    return value


def _read_path(option: Option, value: object, name: str) -> str:
    if not isinstance(value, str | PathLike):
        raise _refuse(name, "a path", value)
    return str(fspath(value))


def _read_many(option: Option, value: object, name: str) -> tuple[str, ...]:
    one = _read_path if option.kind == "paths" else _read_text
    if isinstance(value, str | PathLike):
        return (one(option, value, name),)
    if not isinstance(value, Sequence):
        raise _refuse(name, f"{option.kind}, one or a list", value)
    return tuple(one(option, item, name) for item in value)


def _read_choice(option: Option, value: object, name: str) -> str:
    if value not in option.values:
        near = difflib.get_close_matches(str(value), option.values, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise UsageError(f"{name}: expected one of {', '.join(option.values)}, got {value!r}{hint}")
    return str(value)


def _read_flag(option: Option, value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise _refuse(name, "True or False", value)
    return value


def _read_number(option: Option, value: object, name: str) -> int | float:
    whole = option.kind == "number"
    expected = "a whole number" if whole else "a number"
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise _refuse(name, expected, value)
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{name}: expected a finite number, got {value}")
    _check_size(option, value, name, expected, str)
    return value if whole else float(value)


def _read_duration(option: Option, value: object, name: str) -> int:
    if isinstance(value, timedelta):
        length_ms = value // timedelta(milliseconds=1)
    elif isinstance(value, str):
        length_ms = duration_of(value, name)
    else:
        raise _refuse(name, "a duration such as '15s' or a timedelta", value)
    limited = replace(
        option, minimum=option.minimum or 0, maximum=option.maximum or MAX_DURATION_MS
    )
    _check_size(limited, length_ms, name, "a duration", lambda ms: show_duration(int(ms)))
    return length_ms


def _read_factors(option: Option, value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    given = value if isinstance(value, Sequence) else [value]
    for item in given:
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise _refuse(name, "a number or a list of numbers", item)
    return ",".join(str(item) for item in given)


def _read_grids(option: Option, value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, Mapping):
        return _read_many(option, value, name)
    return tuple(f"{field}={_values_of(values)}" for field, values in value.items())


def _values_of(values: object) -> str:
    if isinstance(values, str) or not isinstance(values, Iterable):
        return str(values)
    return ",".join(str(value) for value in values)


def _read_time(option: Option, value: object, name: str) -> str:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat(
            timespec="milliseconds"
        )
    return _read_text(option, value, name)


def _check_size(
    option: Option, value: float, name: str, expected: str, show: Callable[[float], str]
) -> None:
    if option.minimum is not None and value < option.minimum:
        raise UsageError(
            f"{name}: expected {expected} of at least {show(option.minimum)}, got {show(value)}"
        )
    if option.maximum is not None and value > option.maximum:
        raise UsageError(
            f"{name}: expected {expected} of at most {show(option.maximum)}, got {show(value)}"
        )


_READERS: Mapping[str, Callable[[Option, object, str], object]] = {
    "text": _read_text,
    "texts": _read_many,
    "path": _read_path,
    "paths": _read_many,
    "choice": _read_choice,
    "flag": _read_flag,
    "number": _read_number,
    "real": _read_number,
    "duration": _read_duration,
    "factors": _read_factors,
    "grids": _read_grids,
    "time": _read_time,
}


def duration_of(text: str, name: str) -> int:
    """Return a duration such as `15s`, `1m30s` or `7d` in ms.

    Raises:
        UsageError: another form, or longer than a year.
    """
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise UsageError(
            f"{name}: expected a duration ({DURATION_FORM}) of at most 366d, got {text!r}"
        ) from None


def option(kind: str, help: str, default: Any = None, **details: Any) -> Any:
    """Return a dataclass field that declares an option; `details` are those of `Option`."""
    declared = Option(kind=kind, help=help, default=default, **details)
    return field(default=default, metadata={_OPTION: declared}, repr=not declared.secret)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a use case; immutable, comparable, and kept as JSON.

    A field of a duration ends in `_ms`; callers give it without that, as `15s` or a timedelta.
    """

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Return the options by field: arguments first, then those of its own, then shared ones."""
        own = vars(cls).get("__annotations__", {})
        found = {f.name: f.metadata[_OPTION] for f in fields(cls) if _OPTION in f.metadata}
        order = sorted(found, key=lambda name: (not found[name].positional, name not in own))
        return {name: found[name] for name in order}

    @classmethod
    def of(cls, given: Mapping[str, object], spelled: Spelled = str) -> Self:
        """Return a request from what a caller gave, by keyword; None: not given.

        Raises:
            UsageError: an unknown keyword, or a value that the option refuses.
        """
        known = {keyword(name): name for name in cls.options()}
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {spelled(near[0])}?" if near else f"known: {', '.join(known)}"
                raise UsageError(f"unknown option {spelled(name)}: {hint}")
        declared = cls.options()
        values = {
            known[name]: declared[known[name]].read(value, spelled(name))
            for name, value in given.items()
            if value is not None
        }
        required = [
            spelled(name)
            for name, column in known.items()
            if declared[column].default is REQUIRED and column not in values
        ]
        if required:
            raise UsageError(f"{', '.join(required)}: expected a value, got none")
        request = cls(**values)
        request.check()
        return request

    def check(self) -> None:
        """Refuse combinations that make no sense (UsageError); a use case extends it."""

    @classmethod
    def part_of(cls, other: Request) -> Self:
        """Return the request of this kind that a larger one holds."""
        return cls(**{f.name: getattr(other, f.name) for f in fields(cls)})

    def to_json(self) -> dict[str, Any]:
        """Return the options as plain values; `from_json` reads them again."""
        values = {name: getattr(self, name) for name in self.options()}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the request that `to_json` wrote; what it lacks has its default.

        Raises:
            TypeError: an option without a default is missing.
        """
        values = {name: found[name] for name in cls.options() if name in found}
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


REQUIRED: Any = MISSING
"""The default of an option that has none."""


def keyword(field_name: str) -> str:
    """Return the keyword argument of a field: durations are given with a unit of their own."""
    return field_name.removesuffix("_ms")


def flag(field_name: str, declared: Option) -> str:
    """Return the command line's name of an option."""
    return declared.flag or "--" + keyword(field_name).replace("_", "-")
