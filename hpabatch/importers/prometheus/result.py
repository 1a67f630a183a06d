"""Result of a Prometheus import, and rows of the table `provenance`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from hpabatch.importers.common.rows import ms_schema
from hpabatch.importers.prometheus.client.samples import Findings
from hpabatch.importers.prometheus.site import Site
from hpabatch.model.printable import counted
from hpabatch.model.times import show_instant

_SCHEMA = ms_schema("provenance")


@dataclass(frozen=True, slots=True)
class Source:
    """Provenance of a subject: its method; "" for a name: all of them."""

    subject: str
    method: str
    detail: str | None = None
    namespace: str = ""
    name: str = ""


def provenance_rows(sources: Iterable[Source], after_ms: int, until_ms: int) -> pl.DataFrame:
    """Return rows that hold for a window, times in ms."""
    rows = [
        (one.namespace, one.name, one.subject, after_ms, until_ms, one.method, one.detail)
        for one in dict.fromkeys(sources)
    ]
    key = ("namespace", "name", "subject")
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").sort(*key)


PLACES = pl.Schema(
    {
        "cluster": pl.String(),
        "namespace": pl.String(),
        "hpas": pl.Int64(),
        "targets": pl.Int64(),
        "pods": pl.Int64(),
        "samples": pl.Int64(),
    }
)
"""Columns of `ImportResult.places`."""

_SENTENCES: Mapping[str, str] = {
    "gap": "intervals between samples were longer than --max-gap and have no usage",
    "reset": "counters fell (a restart): these intervals have no usage",
    "value": "values were no usable numbers and are left out",
    "no container": "series were of pods as a whole or of pause containers and are left out",
    "duplicate": "things were scraped by several sources; one counts",
    "together": "containers of a pod were sampled one by one; they got common times",
    "assumed": "assumed",
    "no replicas": "scale targets have no known size",
    "no pod": "rows are of no known pod and are left out",
    "no request": "containers have no request for cpu",
    "conflict": "gauges had two values at once; the first source counts",
    "annotation": "annotations of the server",
    "histogram": "native histograms are left out",
}


@dataclass(slots=True)
class ImportResult:
    """Result of an import.

    Attributes:
        start_ms, end_ms: the requested time.
        site: the server.
        windows: how many were imported by this run.
        earlier: how many were complete before.
        written: rows by table.
        samples: received from the server.
        halved: requests that were divided.
        findings: counted by kind.
        notes: sentences that a reader of the history should know.
        seen: names of HPAs, targets and pods by cluster and namespace.
        counted: samples of this run by cluster and namespace.
        lacking: HPAs (namespace/name) by what is missing of them.
        podless, podded: HPAs of whose target no pod was found in some window, and in some one was.
        remarks: sentences of what does not fit together.
        figures: counters of requests, see `http.Figures`.
    """

    start_ms: int
    end_ms: int
    site: Site | None = None
    windows: int = 0
    earlier: int = 0
    written: Counter[str] = field(default_factory=Counter)
    samples: int = 0
    halved: int = 0
    findings: Findings = field(default_factory=Findings)
    notes: dict[str, None] = field(default_factory=dict)
    seen: dict[tuple[str, str], dict[str, set[str]]] = field(default_factory=dict)
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    lacking: dict[str, set[str]] = field(default_factory=dict)
    podless: set[str] = field(default_factory=set)
    podded: set[str] = field(default_factory=set)
    remarks: dict[str, None] = field(default_factory=dict)
    figures: Mapping[str, object] = field(default_factory=dict)

    def see(self, cluster: str, what: str, names: Iterable[tuple[str, str]]) -> None:
        """Count things (hpas, targets, pods) as (namespace, name), each once."""
        for namespace, name in names:
            place = self.seen.setdefault((cluster, namespace), {})
            place.setdefault(what, set()).add(name)

    def count(self, cluster: str, rows: pl.DataFrame) -> None:
        """Count samples by namespace."""
        if rows.is_empty():
            return
        for namespace, count in rows.group_by("namespace").len().rows():
            self.counted[cluster, str(namespace)] += int(count)

    @property
    def places(self) -> pl.DataFrame:
        """A row per cluster and namespace, in order (PLACES)."""
        rows = [
            (
                *place,
                *(len(self.seen[place].get(what, ())) for what in ("hpas", "targets", "pods")),
                self.counted[place],
            )
            for place in sorted(self.seen)
        ]
        return pl.DataFrame(rows, schema=PLACES, orient="row")

    @property
    def has_hpas(self) -> bool:
        """Whether any HPA was seen."""
        return any(place.get("hpas") for place in self.seen.values())

    def warnings(self) -> list[str]:
        """Return what makes the history less than one would think, sentences."""
        found = list(self.remarks)
        if self.windows and not self.has_hpas:
            found.append(
                "no HPA was exported in that time: are --namespace, --cluster-label and the time "
                "right, and does the server scrape kube-state-metrics?"
            )
        lacking = dict(self.lacking)
        if self.podless - self.podded:
            lacking["no pod of what it scales was found"] = self.podless - self.podded
        for what, names in sorted(lacking.items()):
            some = ", ".join(sorted(names)[:5]) + (", …" if len(names) > 5 else "")
            many = counted(len(names), "HPA")
            found.append(f"{what}: {many}: {some}")
        for (kind, detail), count in sorted(self.findings.counts.items()):
            sentence = _SENTENCES.get(kind, kind)
            found.append(f"{count:,} {sentence}{f': {detail}' if detail else ''}")
        return found

    def as_dict(self) -> dict[str, object]:
        """Return everything as values of JSON."""
        site = self.site
        return {
            "start": show_instant(self.start_ms),
            "end": show_instant(self.end_ms),
            "server": dict(site.about) if site else {},
            "clusters": list(site.clusters) if site else [],
            "windows": self.windows,
            "windows_before": self.earlier,
            "written": dict(sorted(self.written.items())),
            "samples": self.samples,
            "halved": self.halved,
            "findings": [
                {"kind": kind, "detail": detail, "count": count}
                for (kind, detail), count in sorted(self.findings.counts.items())
            ],
            "lacking": {what: sorted(names) for what, names in sorted(self.lacking.items())},
            "notes": list(self.notes),
            "figures": dict(self.figures),
            "places": self.places.to_dicts(),
        }
