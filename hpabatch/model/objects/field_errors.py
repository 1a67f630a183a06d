"""Field errors, printed exactly as the API server prints them.

Follows apimachinery pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hpabatch.model.quantity import Quantity


class ErrorKind(StrEnum):
    """The kinds of field errors; the value is the printed string."""

    required = "Required value"
    invalid = "Invalid value"
    not_supported = "Unsupported value"
    forbidden = "Forbidden"
    too_long = "Too long"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field error: `spec.maxReplicas: Invalid value: 0: must be greater than 0`.

    `value` is the offending value as printed, "" for kinds that show none.
    """

    kind: ErrorKind
    path: str
    value: str = ""
    detail: str = ""

    def __str__(self) -> str:
        """Print as field.Error.Error() does."""
        return ": ".join(filter(None, (self.path, str(self.kind), self.value, self.detail)))


def required(path: str, detail: str = "") -> FieldError:
    """Return the error of a missing value."""
    return FieldError(ErrorKind.required, path, detail=detail)


def forbidden(path: str, detail: str) -> FieldError:
    """Return the error of a value that may not be set."""
    return FieldError(ErrorKind.forbidden, path, detail=detail)


def too_long(path: str, limit: int) -> FieldError:
    """Return the error of a value with more than `limit` bytes."""
    return FieldError(ErrorKind.too_long, path, detail=f"may not be more than {limit} bytes")


def invalid(path: str, value: int | str | Quantity, detail: str) -> FieldError:
    """Return the error of a wrong value; a plain Go string is printed with %q."""
    shown = go_quote(str(value)) if isinstance(value, str | Quantity) else str(value)
    return FieldError(ErrorKind.invalid, path, shown, detail)


def invalid_typed(path: str, value: str, detail: str) -> FieldError:
    """Return the error of a wrong value of a named Go string type, which prints as JSON."""
    return FieldError(ErrorKind.invalid, path, _json_quote(value), detail)


def not_supported(path: str, value: str, supported: Sequence[str]) -> FieldError:
    """Return the error of a value outside an enumeration, which is given sorted."""
    choices = ", ".join(go_quote(choice) for choice in supported)
    detail = f"supported values: {choices}"
    return FieldError(ErrorKind.not_supported, path, _json_quote(value), detail)


_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f",
    "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def go_quote(text: str) -> str:
    """Quote a string as Go's %q does."""
    return '"' + "".join(_quote_rune(rune) for rune in text) + '"'


def _quote_rune(rune: str) -> str:
    if rune in _ESCAPES:
        return _ESCAPES[rune]
    if rune.isprintable():
        return rune
    code = ord(rune)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_quote(text: str) -> str:
    """Quote a string as Go's encoding/json does, which also escapes for HTML."""
    quoted = json.dumps(text, ensure_ascii=False)
    for rune in "<>&\u2028\u2029":
        quoted = quoted.replace(rune, f"\\u{ord(rune):04x}")
    return quoted
