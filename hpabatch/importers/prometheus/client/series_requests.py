"""Requests for series: matchers and time as PromQL, divisible into halves.

A request names its pods (or namespaces, or HPAs) one by one: the server finds their series in its
index and reads nothing else. If a response is too large, the request is divided: by time for raw
samples, else by names. Halves do not overlap, so the same samples come back however a request is
cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from hpabatch.importers.prometheus.client.queries import Query
from hpabatch.importers.prometheus.client.samples import Expected, Samples

Form = Literal["raw", "min", "max", "last", "now"]
"""raw: all samples; min, max, last: one sample a series, over the time; now: at its end."""

SHORTEST_MS = 10 * 60_000
"""Raw requests are not divided below this length."""
LONG_CHARS = 4000
"""Names of more characters are divided first: gateways take 8 KiB in an address."""

_OVER_TIME = {"min": "min_over_time", "max": "max_over_time", "last": "last_over_time"}
_SPECIAL = set("\\.+*?()[]{}|^$")


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    """A request for the samples of series.

    Attributes:
        query: its first series is requested.
        form: see `Form`.
        from_ms: samples after this instant,
        until_ms: up to this one.
        names: values by label, in this package's names; other labels are not restricted.
        split: the label whose values may be divided among several requests.
    """

    query: Query
    form: Form
    from_ms: int
    until_ms: int
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    split: str = "pod"

    def promql(self) -> str:
        """Return the request as PromQL, to be evaluated at `until_ms`."""
        matchers = [_matcher(self.query.their(n), v) for n, v in sorted(self.names.items())]
        if self.query.where:
            matchers.append(self.query.where)
        selector = f"{self.query.series[0]}{{{','.join(matchers)}}}"
        if self.form == "now":
            return selector
        selector += f"[{self.until_ms - self.from_ms}ms]"
        return selector if self.form == "raw" else f"{_OVER_TIME[self.form]}({selector})"

    def kind(self) -> str:
        """Return the kind, within which sizes are compared."""
        return f"{self.form} {self.query.name}"

    def size(self) -> int:
        """Return the size, to compare with others of its kind."""
        return (self.until_ms - self.from_ms) * max(1, len(self.names.get(self.split, ())))

    def form_fields(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the path after /api/v1/, and the names and values of the form."""
        return "query", [("query", self.promql()), ("time", seconds(self.until_ms))]

    def expected(self) -> Expected:
        """Return what the response must be, by the site's names."""
        must = {self.query.their(name): frozenset(values) for name, values in self.names.items()}
        if self.form in ("raw", "now"):
            must["__name__"] = frozenset(self.query.series[:1])
        if self.form == "raw":
            return Expected(self.from_ms, self.until_ms, must, "matrix")
        return Expected(self.until_ms, self.until_ms, must, "vector")

    def halves(self) -> tuple[SeriesRequest, SeriesRequest] | None:
        """Return two requests for the same samples, None where there is nothing to divide."""
        length = self.until_ms - self.from_ms
        values = self.names.get(self.split, ())
        # A long query may be refused for its length, which only fewer names make less.
        is_long = len(values) > 1 and sum(map(len, values)) > LONG_CHARS
        if self.form == "raw" and length >= 2 * SHORTEST_MS and not is_long:
            middle = self.from_ms + length // 2
            return replace(self, until_ms=middle), replace(self, from_ms=middle)
        if len(values) < 2:
            return None
        at = len(values) // 2
        return (
            replace(self, names={**self.names, self.split: values[:at]}),
            replace(self, names={**self.names, self.split: values[at:]}),
        )

    def ours(self, response: Samples) -> Samples:
        """Return a response with this package's names of labels, within the time."""
        renamed = {
            theirs: ours
            for ours, theirs in self.query.labels.items()
            if theirs in response.names and theirs != ours
        }
        series = response.series
        # A renamed label replaces one of the same name, which is the exporter's own.
        series = series.drop([ours for ours in renamed.values() if ours in series.columns])
        found = Samples(series.rename(renamed), response.points)
        return found.cut(self.from_ms, self.until_ms) if self.form == "raw" else found


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A request for the values of an expression at every multiple of a step.

    Attributes:
        name: of the subject, e.g. a metric.
        expression: PromQL.
        from_ms, until_ms: instants after the first and up to the second.
        step_ms: between two evaluations, which fall on its multiples since 1970.
    """

    name: str
    expression: str
    from_ms: int
    until_ms: int
    step_ms: int

    def promql(self) -> str:
        """Return the expression."""
        return self.expression

    @property
    def first_ms(self) -> int:
        """The first evaluation."""
        return (self.from_ms // self.step_ms + 1) * self.step_ms

    @property
    def last_ms(self) -> int:
        """The last evaluation; before the first if there is none."""
        return self.until_ms // self.step_ms * self.step_ms

    def kind(self) -> str:
        """Return the kind, within which sizes are compared."""
        return f"range {self.name}"

    def size(self) -> int:
        """Return the size, to compare with others of its kind."""
        return self.until_ms - self.from_ms

    def form_fields(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the path after /api/v1/, and the names and values of the form."""
        return "query_range", [
            ("query", self.expression), ("start", seconds(self.first_ms)),
            ("end", seconds(self.last_ms)), ("step", seconds(self.step_ms)),
        ]  # fmt: skip

    def expected(self) -> Expected:
        """Return what the response must be; its labels may be any."""
        return Expected(self.first_ms, self.last_ms, {}, "matrix", self.step_ms)

    def halves(self) -> tuple[RangeRequest, RangeRequest] | None:
        """Return two requests for the same values, None where there is one evaluation."""
        if self.last_ms - self.first_ms < self.step_ms:
            return None
        middle = (self.first_ms + self.last_ms) // 2
        return replace(self, until_ms=middle), replace(self, from_ms=middle)

    def ours(self, response: Samples) -> Samples:
        """Return the response."""
        return response


Request = SeriesRequest | RangeRequest
"""A request that can be divided, of samples after `from_ms` and up to `until_ms`."""


def seconds(ms: int) -> str:
    """Return an instant or a length as servers read it, to the millisecond."""
    return f"{ms // 1000}.{ms % 1000:03d}"


def chunks(values: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Return values in as few parts of at most `size` as there can be, about equally large."""
    count = -(-len(values) // size)
    bounds = [round(place * len(values) / count) for place in range(count + 1)] if count else []
    return [tuple(values[a:b]) for a, b in pairwise(bounds)]


def _matcher(label: str, values: tuple[str, ...]) -> str:
    # Each value is a regular expression (RE2) for just itself.
    escaped = ("".join(f"\\{c}" if c in _SPECIAL else c for c in value) for value in values)
    sign, text = ("=", values[0]) if len(values) == 1 else ("=~", "|".join(escaped))
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{label}{sign}"{plain}"'
