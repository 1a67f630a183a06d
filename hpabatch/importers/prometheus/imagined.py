"""A dry run: what would be asked, found by the import itself with a server that only counts.

The imagined server has a fleet of the size that somebody expects, in which targets change their
size every day and a tenth of the pods is replaced. Nothing leaves this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from hpabatch.importers.prometheus.client.ask import Ask, Question, RangeAsk
from hpabatch.importers.prometheus.client.samples import (
    POINTS,
    Samples,
    empty_samples,
    make_samples,
)

_SPACES = 20
_REPLACED = 10
"""One pod of so many is replaced in a day."""

_SERIES: Mapping[str, int] = {
    "cpu": 2, "cpu_rate": 2, "memory": 2, "pod_phase": 5, "pod_ready": 3, "containers": 2,
    "requests": 4, "limits": 4, "hpa_target": 2, "hpa_metric": 2, "hpa_condition": 9,
}  # fmt: skip
"""Series that a thing has of a name; else one."""

_RARE = (
    "pod_deleted", "pod_ready_time", "init_containers", "init_requests", "init_limits",
    "overhead_cpu", "overhead_memory",
)  # fmt: skip
"""What few pods have."""

_MOVES = ("hpa_metric", "hpa_current", "hpa_desired")


@dataclass(slots=True)
class Asked:
    """Questions of a kind: how many, the first one's text, and the samples of all answers."""

    example: str
    questions: int = 0
    samples: int = 0
    largest: int = 0


@dataclass(slots=True)
class Imagined:
    """A server that answers with a fleet that nobody has.

    Attributes:
        pods, hpas: its size.
        spacing_ms: of raw samples.
        times: how many windows the one that is asked about stands for.
        asked: what it was asked, by kind.
    """

    pods: int
    hpas: int
    spacing_ms: int
    times: int = 1
    asked: dict[str, Asked] = field(default_factory=dict)

    def answer(self, question: Question) -> Samples:
        """Return an answer of the right labels; raw samples are counted, not made."""
        if isinstance(question, RangeAsk):
            count = (question.last_ms - question.first_ms) // question.step_ms + 1
            self._count(f"{question.name} (every step)", question.promql(), count)
            return empty_samples()
        assert isinstance(question, Ask)
        each = _SERIES.get(question.query.name, 1)
        labels = [
            {**one, "container": f"c{k}"} for one in self._labels(question) for k in range(each)
        ]
        count = len(labels)
        if question.form == "raw":
            count *= (question.until_ms - question.from_ms) // self.spacing_ms
        kind = f"{question.query.series[0]} ({_WORDS[question.form]})"
        self._count(kind, question.promql(), count)
        if question.query.name == "heartbeat":
            points = pl.DataFrame([(0, question.until_ms, 1.0)], schema=POINTS, orient="row")
            return make_samples(labels, points)
        if not labels or (question.form == "raw" and question.query.name != "pod_info"):
            return empty_samples()
        moves = question.query.name in _MOVES or "replicas" in question.query.name
        value = float(question.form == "max") if moves else 1.0
        if question.query.name in ("pod_created", "pod_started"):
            value = question.from_ms / 1000
        rows = [(k, question.until_ms, value) for k in range(len(labels))]
        return make_samples(labels, pl.DataFrame(rows, schema=POINTS, orient="row"))

    def namespaces(self) -> tuple[str, ...]:
        """Return those of its HPAs."""
        return tuple(sorted({f"team-{k % _SPACES}" for k in range(self.hpas)}))

    def stop(self) -> None:
        """Stop; there is nothing that could go on."""

    def _count(self, kind: str, text: str, samples: int) -> None:
        short = text if len(text) <= 200 else f"{text[:120]} … {text[-60:]}"
        known = self.asked.setdefault(kind, Asked(short))
        known.questions += self.times
        known.samples += samples * self.times
        known.largest = max(known.largest, samples)

    def _labels(self, ask: Ask) -> list[dict[str, str]]:
        """Return the labels of the things that a question names, by the site's names."""
        name = ask.query.name
        if name in _RARE:
            return []
        if name in ("heartbeat", "build_info"):
            return [{"namespace": "default", "git_version": "v1.37.0"}]
        if name.startswith("hpa_") or "replicas" in name:
            found = [self._hpa(k, ask.split) for k in range(self.hpas)]
        elif name == "replicaset_owner":
            found = [self._replicaset(k) for k in range(self.hpas)]
        else:
            found = [self._pod(k) for k in range(self.pods) if self._is_there(k, ask)]
        wanted = {label: set(values) for label, values in ask.names.items()}
        kept = [one for one in found if all(one.get(n) in v for n, v in wanted.items() if n in one)]
        return [{ask.query.their(n): value for n, value in one.items()} for one in kept]

    def _is_there(self, pod: int, ask: Ask) -> bool:
        return ask.form != "now" or pod % _REPLACED != 0

    def _hpa(self, number: int, label: str) -> dict[str, str]:
        name = f"app-{number}"
        found = {
            "namespace": f"team-{number % _SPACES}",
            "horizontalpodautoscaler": name,
            "scaletargetref_kind": "Deployment",
            "scaletargetref_name": name,
            "scaletargetref_api_version": "apps/v1",
        }
        return found if label in (*found, "namespace") else {**found, label: name}

    def _replicaset(self, number: int) -> dict[str, str]:
        return {
            "namespace": f"team-{number % _SPACES}",
            "replicaset": f"app-{number}-7d4b9c6f5",
            "owner_kind": "Deployment",
            "owner_name": f"app-{number}",
            "owner_is_controller": "true",
        }

    def _pod(self, number: int) -> dict[str, str]:
        owner = number % self.hpas
        return {
            "namespace": f"team-{owner % _SPACES}",
            "pod": f"app-{owner}-7d4b9c6f5-{number:05d}",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "owner_kind": "ReplicaSet",
            "owner_name": f"app-{owner}-7d4b9c6f5",
            "owner_is_controller": "true",
            "container": "app",
        }


class NothingThere:
    """A server without any series that an adapter could find."""

    def label_values(
        self, label: str, matchers: Sequence[str], start_ms: int, end_ms: int
    ) -> list[str]:
        """Return no values."""
        return []

    def label_names(self, matchers: Sequence[str], start_ms: int, end_ms: int) -> list[str]:
        """Return no names."""
        return []


_WORDS = {
    "raw": "raw samples",
    "min": "smallest, one a series",
    "max": "largest, one a series",
    "last": "last, one a series",
    "now": "at an instant",
}
