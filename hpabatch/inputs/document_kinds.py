"""Kinds of values in YAML files: times, factors, quantities, names, selectors of HPAs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final

from hpabatch.inputs.document_keys import ListOf, Scalar, WrongValueError, key
from hpabatch.inputs.documents import show
from hpabatch.model.quantity import Quantity
from hpabatch.model.selection import matches
from hpabatch.model.suggestions import did_you_mean
from hpabatch.model.times import (
    INSTANT_FORM,
    MAX_DURATION_MS,
    is_instant,
    parse_duration_ms,
    parse_instant_ms,
    show_duration,
    show_instant,
)

MAX_FACTOR_MILLI: Final = 1_000_000
MAX_AMOUNT_MILLI: Final = 2**53
"""The largest amount in a file, in thousandths: 9 TB, or 9e12 of anything counted."""

# Thousandths are kept in 64 bits; the same limit as for amounts of rows (MILLI_MAX).
_MAX_MILLI: Final = 2**62
_LARGEST: Final = Quantity.from_milli(_MAX_MILLI)

SIGNAL_KINDS: Final = ("resource", "container", "pods", "object", "external")
_NAME = re.compile(r"[a-z0-9.*?-]+", re.ASCII)
_PERCENT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?%", re.ASCII)
_RATE = re.compile(r"(.*?) ?/ ?(s|m|h|d)", re.DOTALL)
_PER_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _expected(wants: str, value: object, fix: str = "") -> WrongValueError:
    return WrongValueError(f"expected {wants}, got {show(value)}", fix)


def text(wants: str = "a string") -> Scalar:
    """Return the kind of a string that is not empty."""

    def parse(value: object) -> str:
        if not isinstance(value, str):
            is_scalar = isinstance(value, bool | int | float)
            raise _expected(wants, value, "put it in quotes" if is_scalar else "")
        if not value.strip():
            raise ValueError(f"expected {wants}, got an empty string")
        return value

    return Scalar(wants, parse)


STRING: Final = Scalar("a string", lambda value: value if value == "" else text().parse(value))


def choice(values: Mapping[str, Any]) -> Scalar:
    """Return the kind of one of a few words, each of which stands for a value."""
    wants = f"one of {', '.join(values)}"

    def parse(value: object) -> Any:
        if not isinstance(value, str) or value not in values:
            hint = did_you_mean(value, values) if isinstance(value, str) else ""
            raise _expected(wants, value, hint[2:])
        return values[value]

    return Scalar(wants, parse)


def word(*allowed: str) -> Scalar:
    """Return the kind of one of a few words."""
    return choice(dict(zip(allowed, allowed, strict=True)))


def _yes_or_no(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


YES_NO: Final = Scalar("true or false", _yes_or_no)


def whole(minimum: int, maximum: int) -> Scalar:
    """Return the kind of a whole number within bounds."""
    wants = f"a whole number from {minimum:,} to {maximum:,}"

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError
        if not minimum <= value <= maximum:
            raise ValueError
        return value

    return Scalar(wants, parse)


def duration(minimum_ms: int = 0, maximum_ms: int = MAX_DURATION_MS) -> Scalar:
    """Return the kind of a duration within bounds; a bare 0 is one, too."""
    least = f", at least {show_duration(minimum_ms)}" if minimum_ms else ""
    most = f", at most {show_duration(maximum_ms)}" if maximum_ms < MAX_DURATION_MS else ""
    wants = f"a duration such as 15s, 2h30m or 1d{least}{most}"

    def parse(value: object) -> int:
        if isinstance(value, str) and value.startswith("-"):
            raise ValueError
        duration_ms = _duration_ms(value)
        if not minimum_ms <= duration_ms <= maximum_ms:
            raise ValueError
        return duration_ms

    return Scalar(wants, parse)


def _duration_ms(value: object) -> int:
    if value == 0 and _is_number(value):
        return 0
    if not isinstance(value, str):
        raise ValueError
    try:
        return parse_duration_ms(value)
    except ValueError:
        raise ValueError from None


def _signed_duration_ms(value: object) -> int:
    sign = -1 if isinstance(value, str) and value.startswith("-") else 1
    duration_ms = _duration_ms(value.lstrip("+-") if isinstance(value, str) else value)
    if not duration_ms:
        raise ValueError
    return sign * duration_ms


SIGNED_DURATION: Final = Scalar(
    "a duration such as 3h (later) or -3h (earlier), not 0", _signed_duration_ms
)


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant: ms since 1970, or `relative` to the start of the run."""

    ms: int
    relative: bool = True

    def instant_ms(self, start_ms: int) -> int:
        """Return the instant in ms since 1970, for a run that starts at `start_ms`."""
        return start_ms + self.ms if self.relative else self.ms

    def __str__(self) -> str:
        return show_duration(self.ms) if self.relative else show_instant(self.ms)


_MOMENT_WANTS = f"a time: a duration after the run's start (2h30m) or a timestamp ({INSTANT_FORM})"


def _moment(value: object) -> Moment:
    if not isinstance(value, str):
        if value == 0 and _is_number(value):
            return Moment(0)
        raise ValueError
    if is_instant(value):
        return Moment(parse_instant_ms(value), relative=False)
    if value.startswith("-"):
        raise ValueError
    try:
        return Moment(parse_duration_ms(value))
    except ValueError:
        raise ValueError from None


MOMENT: Final = Scalar(_MOMENT_WANTS, _moment)
MOMENTS: Final = ListOf(MOMENT, f"{_MOMENT_WANTS}, or a list of times")

PERIODS: Final = {"day": 86_400_000, "week": 604_800_000}


def _period(value: object) -> int:
    if isinstance(value, str) and value in PERIODS:
        return PERIODS[value]
    if not isinstance(value, str) or not value[:1].isdigit():
        hint = did_you_mean(value, PERIODS) if isinstance(value, str) else ""
        raise _expected(PERIOD.wants, value, hint[2:])
    period_ms = parse_duration_ms(value)
    if period_ms < 60_000:
        raise ValueError
    return period_ms


PERIOD: Final = Scalar("week, day, or a duration of at least 1m such as 12h", _period)


def _thousandths(value: object, low: int, high: int) -> int:
    """Return a number as exact thousandths within bounds (given in thousandths)."""
    if not _is_number(value):
        raise ValueError
    try:
        exact = Decimal(repr(value)) * 1000
        if not low <= exact <= high:
            raise ValueError
    except InvalidOperation:  # not a number, in the sense of floats
        raise ValueError from None
    if exact != int(exact):
        raise _expected("at most three decimals", value)
    return int(exact)


FACTOR: Final = Scalar(
    f"a number from 0 to {MAX_FACTOR_MILLI // 1000} of at most three decimals, such as 1.4",
    lambda value: _thousandths(value, 0, MAX_FACTOR_MILLI),
)
WEIGHT: Final = Scalar(
    "a number above 0, at most 1000, of at most three decimals, such as 1.2",
    lambda value: _thousandths(value, 1, 1_000_000),
)


def _share(value: object) -> int:
    """Return a share of more than nothing, at most all, in thousandths."""
    if isinstance(value, str):
        found = _PERCENT.fullmatch(value)
        if found is None:
            raise ValueError
        milli = Decimal(found[1]) * 10
        if milli != int(milli):
            raise _expected("at most one decimal", value)
        if not 1 <= milli <= 1000:
            raise ValueError
        return int(milli)
    return _thousandths(value, 1, 1000)


SHARE: Final = Scalar("a share above 0%, at most 100%, such as 30% or 0.3", _share)


def number(minimum: float, maximum: float, wants: str = "") -> Scalar:
    """Return the kind of a number within bounds."""

    def parse(value: Any) -> float:
        if not _is_number(value) or not minimum <= value <= maximum:
            raise ValueError
        return float(value)

    return Scalar(wants or f"a number from {minimum:g} to {maximum:g}", parse)


def percent(maximum: int) -> Scalar:
    """Return the kind of whole percents from 0 on."""
    wants = f"a whole percentage from 0% to {maximum}%, such as 25%"

    def parse(value: object) -> int:
        found = (
            re.fullmatch(r"([0-9]{1,9}) ?%", value, re.ASCII) if isinstance(value, str) else None
        )
        if found is None or int(found[1]) > maximum:
            raise ValueError
        return int(found[1])

    return Scalar(wants, parse)


def _amount(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError
    try:
        quantity = Quantity.parse(value)
    except ValueError:  # with upstream's regular expression for a reason
        raise _expected(_AMOUNT_WANTS, value) from None
    if quantity.sign() < 0:
        raise _expected(f"{_AMOUNT_WANTS}, 0 or more", value)
    if quantity.compare(Quantity.from_milli(MAX_AMOUNT_MILLI)) > 0:
        raise _expected(f"at most {MAX_AMOUNT_MILLI // 1000:,}", value)
    return quantity.milli()


_AMOUNT_WANTS = "a quantity such as 250m, 1.5 or 200Mi"
AMOUNT: Final = Scalar(_AMOUNT_WANTS, _amount)


def quantity_milli(value: object) -> int | str:
    """Return a Kubernetes quantity (0.5, 500m, 1Gi) in thousandths, or a sentence against it."""
    wanted = "a quantity such as 500m or 1Gi"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return f"expected {wanted}, got {show(value)}"
    try:
        quantity = Quantity.parse(value)
    except ValueError as error:
        return f"expected {wanted}, got {show(value)}: {error}"
    # Thousandths of more would wrap, as they do in Kubernetes.
    if quantity.compare(_LARGEST) > 0:
        return f"expected at most {_MAX_MILLI // 1000:.2g}, got {show(value)}"
    return f"expected 0 or more, got {show(value)}" if quantity.sign() < 0 else quantity.milli()


def _milli(value: object) -> int:
    milli = quantity_milli(value)
    if isinstance(milli, str):
        raise ValueError(milli)
    return milli


MILLI: Final = Scalar("a quantity such as 500m or 1Gi", _milli)


def positive_amount() -> Scalar:
    """Return the kind of a quantity above 0."""

    def parse(value: object) -> int:
        found = _amount(value)
        if not found:
            raise ValueError
        return found

    return Scalar("a quantity above 0 such as 250m, 1.5 or 200Mi", parse)


def rate(per: str, minimum_milli: int = 0) -> Scalar:
    """Return the kind of an amount per time, in thousandths per `per`, the half rounded up."""
    wants = f"an amount per time such as {'5/s or 300/m' if per == 's' else '10Mi/h'}"

    def parse(value: object) -> int:
        found = _RATE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise ValueError
        exact = Fraction(_amount(found[1]) * _PER_SECONDS[per], _PER_SECONDS[found[2]])
        milli = int(exact + Fraction(1, 2))
        if not minimum_milli <= milli <= MAX_AMOUNT_MILLI:
            bound = "smaller" if milli else "larger"
            raise _expected(f"{wants}, {bound}", value)
        return milli

    return Scalar(wants, parse)


def _hpa_glob(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    parts = value.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError
    for part in parts[-2:]:
        if not _NAME.fullmatch(part):
            raise _expected(
                "lower-case letters, digits, - and . in the names of namespace and HPA (* matches "
                "any string, ? any letter)",
                value,
                "write several as a list",
            )
    return value


HPA_GLOB: Final = Scalar(
    "namespace/hpa or cluster/namespace/hpa, such as shop/web or shop/*", _hpa_glob
)
HPA_GLOBS: Final = ListOf(HPA_GLOB, f"{HPA_GLOB.wants}, or a list of such")


def check_signal(glob: str) -> None:
    """Refuse (ValueError) a string that is neither a signal's name nor a pattern of some."""
    kind, slash, rest = glob.partition("/")
    if glob == "*" or (slash and rest and any(matches(kind, known) for known in SIGNAL_KINDS)):
        return
    hint = did_you_mean(kind, SIGNAL_KINDS)
    raise _expected(SIGNAL_GLOB.wants, glob, hint[2:])


def _signal_glob(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    check_signal(value)
    return value


SIGNAL_GLOB: Final = Scalar(
    f"the name of a signal, such as resource/cpu or external/queue_length; it begins with "
    f"{', '.join(SIGNAL_KINDS)} and /, and * matches any string",
    _signal_glob,
)
SIGNAL_GLOBS: Final = ListOf(SIGNAL_GLOB, f"{SIGNAL_GLOB.wants}; or a list of such")


def name_glob(wants: str) -> Scalar:
    """Return the kind of a name in which `*` and `?` are wildcards."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or not value.strip() or "/" in value:
            raise ValueError
        return value

    return Scalar(wants, parse)


def quantity_of(milli: int) -> str:
    """Return thousandths as a Kubernetes quantity, for messages: 120 -> `120m`."""
    return Quantity.from_milli(milli).canonical()


@dataclass(frozen=True, slots=True)
class Selector:
    """All HPAs that match one of the globs (none: every HPA) and the condition (None: every HPA).

    A glob is `namespace/hpa` or `cluster/namespace/hpa`. `where` is a condition on the columns of
    the fleet's HPAs. `place` is its position in a file, for messages.
    """

    hpas: tuple[str, ...] = key(
        "hpa", HPA_GLOBS, "only for these HPAs; `*` and `?` are wildcards", (), "all"
    )
    where: str | None = key(
        "where", text("a condition"),
        "only for HPAs for which this condition is true, as `--where`", None, "all",
    )  # fmt: skip
    place: str = field(default="", compare=False)

    def takes_name(self, cluster: str, namespace: str, hpa: str) -> bool:
        """Whether the globs match an HPA, whatever the condition says."""
        short, full = f"{namespace}/{hpa}", f"{cluster}/{namespace}/{hpa}"
        return not self.hpas or any(
            matches(glob, full if glob.count("/") == 2 else short) for glob in self.hpas
        )
