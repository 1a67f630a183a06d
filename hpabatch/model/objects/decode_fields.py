"""Decoding of a JSON object field by field, with all problems collected and none raised.

A `Fields` knows its path, checks the JSON type of each field that is read, and at the end
(`close`) reports the fields that were not read. Numbers are checked as Go's decoder does after
kubectl converted YAML to JSON: `3.0` is the integer 3, `"3"` is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeVar

from hpabatch.model.quantity import Quantity

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)

_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN_VALUE = 80  # characters of a wrong value that a message shows


T = TypeVar("T")


class Severity(StrEnum):
    """Whether a problem refuses the document, does so if strict, or is only reported."""

    error = "error"
    warning = "warning"
    note = "note"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the JSON itself, at a field path such as `spec.metrics[0].type`.

    An error is a value of the wrong JSON type (the API server cannot decode the document); a
    warning is a field that the API server drops.
    """

    path: str
    message: str
    severity: Severity = Severity.error

    def __str__(self) -> str:
        """Return `path: message`."""
        return f"{self.path}: {self.message}" if self.path else self.message


def load_json(text: str) -> object:
    """Parse JSON text, strictly: no NaN, no Infinity.

    Raises:
        ValueError: not JSON, or nested too deeply; the message has the position.
    """
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def show_value(value: object) -> str:
    """Return a value as JSON, cut to a line's length."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):  # cyclic or bottomless: an alias inside itself
        text = "(a value nested too deeply to show)"
    return text if len(text) <= _SHOWN_VALUE else text[: _SHOWN_VALUE - 1] + "…"


@lru_cache(maxsize=20_000)
def api_time_ms(text: str) -> int:
    """Return an RFC 3339 timestamp in ms since 1970, rounded down (metav1.Time, MicroTime).

    Raises:
        ValueError: another form, or a date that no calendar has; the message quotes it.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time such as 2026-01-31T12:00:00Z (RFC 3339)")
    whole, fraction, zone = found.groups()
    try:
        since = datetime.fromisoformat(whole + zone) - _EPOCH
    except ValueError as error:
        raise ValueError(f"{text!r} is no time of any calendar: {error}") from None
    return since // timedelta(milliseconds=1) + int((fraction or "")[:3].ljust(3, "0"))


def _is_time(text: str) -> bool:
    """Whether metav1.Time would decode a string (Go's time.RFC3339)."""
    try:
        api_time_ms(text)
    except ValueError:
        return False
    return True


class Fields:
    """One JSON object at a path. `fold` finds keys in any case, as Go's encoding/json does."""

    def __init__(
        self, value: Mapping[str, object], path: str, problems: list[Problem], fold: bool = False
    ) -> None:
        """Wrap an object; problems are appended to the caller's list."""
        self._value = value
        self._path = path
        self._problems = problems
        self._asked: set[str] = set()
        self._folded = {key.lower(): item for key, item in value.items()} if fold else None

    def path(self, key: str) -> str:
        """Return the path of a field of this object."""
        return f"{self._path}.{key}" if self._path else key

    def string(self, key: str) -> str:
        """Return a string field, "" where it is absent or null."""
        return self.optional_string(key) or ""

    def optional_string(self, key: str) -> str | None:
        """Return a string field, None where it is absent or null."""
        value = self._get(key)
        if value is None or isinstance(value, str):
            return value
        self._refuse(key, value, "a string")
        return None

    def time(self, key: str) -> str | None:
        """Return an RFC 3339 time as written, None where it is absent or null."""
        value = self._get(key)
        if value is None:
            return None
        if isinstance(value, str) and _is_time(value):
            return value
        self._refuse(key, value, "a time such as 2026-01-31T12:00:00Z (RFC 3339)")
        return None

    def integer(self, key: str, bounds: tuple[int, int] = INT32) -> int | None:
        """Return an integer field within its Go type's bounds, None where absent or null."""
        value = self._get(key)
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
            value = int(value)  # the server gets an integer
        if value is None:
            return None
        low, high = bounds
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self._refuse(key, value, f"an integer ({'int32' if bounds == INT32 else 'int64'})")
        return None

    def quantity(self, key: str) -> Quantity | None:
        """Return a quantity field (a string or a number), None where absent or null."""
        value = self._get(key)
        if value is None:
            return None
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            try:
                return Quantity.parse(value)
            except ValueError as error:
                self._refuse(key, value, f"a quantity: {error}")
                return None
        self._refuse(key, value, "a quantity (a string or a number)")
        return None

    def read(self, key: str, build: Callable[[Fields], T]) -> T | None:
        """Return what `build` makes of an object field, None where it is absent or null.

        Fields that `build` does not read are reported, see `close`.
        """
        child = self.child(key)
        return None if child is None else child.built(build)

    def read_all(self, key: str, build: Callable[[Fields], T]) -> tuple[T, ...] | None:
        """Return what `build` makes of each object of a list, as `read`."""
        items = self.children(key)
        return None if items is None else tuple([item.built(build) for item in items])

    def built(self, build: Callable[[Fields], T]) -> T:
        """Return what `build` makes of this object, and report the fields that it does not read."""
        found = build(self)
        self.close()
        return found

    def child(self, key: str) -> Fields | None:
        """Return an object field, None where it is absent or null."""
        value = self._get(key)
        return None if value is None else self._wrap(value, key)

    def children(self, key: str) -> list[Fields] | None:
        """Return a list of objects, None where it is absent or null; a null item is empty."""
        items = self._list(key)
        if items is None:
            return None
        wrapped = (
            self._wrap({} if item is None else item, f"{key}[{index}]")
            for index, item in enumerate(items)
        )
        return [item for item in wrapped if item is not None]

    def strings(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, empty where it is absent or null; a null item is ""."""
        found: list[str] = []
        for index, item in enumerate(self._list(key) or ()):
            if item is None or isinstance(item, str):
                found.append(item or "")
            else:
                self._refuse(f"{key}[{index}]", item, "a string")
        return tuple(found)

    def string_map(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return an object of strings as pairs in document order."""
        value = self._get(key)
        if value is None:
            return ()
        if not isinstance(value, Mapping):
            self._refuse(key, value, "an object")
            return ()
        pairs: list[tuple[str, str]] = []
        for name, item in value.items():
            if item is None or isinstance(item, str):
                pairs.append((str(name), item or ""))
            else:
                self._refuse(f"{key}[{name}]", item, "a string")
        return tuple(pairs)

    def ignore(self, *keys: str) -> None:
        """Mark fields as known without reading them."""
        self._asked.update(keys)

    def close(self) -> None:
        """Warn of every field that was not read; the API server drops it."""
        if self._folded is not None:
            return
        self._problems.extend(
            Problem(self.path(key), "unknown field, ignored", Severity.warning)
            for key in self._value
            if key not in self._asked
        )

    def _get(self, key: str) -> object:
        self._asked.add(key)
        if key in self._value or self._folded is None:
            return self._value.get(key)
        return self._folded.get(key.lower())

    def _list(self, key: str) -> list[object] | None:
        value = self._get(key)
        if value is None or isinstance(value, list):
            return value
        self._refuse(key, value, "a list")
        return None

    def _wrap(self, value: object, key: str) -> Fields | None:
        if isinstance(value, Mapping):
            return Fields(value, self.path(key), self._problems, self._folded is not None)
        self._refuse(key, value, "an object")
        return None

    def _refuse(self, key: str, value: object, expected: str) -> None:
        self._problems.append(
            Problem(self.path(key), f"Invalid value: {show_value(value)}: must be {expected}")
        )
