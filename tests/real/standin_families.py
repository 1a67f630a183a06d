"""All samples of the benchmark's made-up fleet, plainly by its formulas, for a real server."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl

from benchmarks.prometheus_standin_answer import Answers
from benchmarks.prometheus_standin_fleet import Fleet
from benchmarks.prometheus_standin_series import METRICS, Usage, subjects
from tests.real.openmetrics_family import Family


def families(fleet: Fleet, wanted: Collection[str] = METRICS) -> list[Family]:
    """Return all samples of these metrics."""
    answers, everyone, found = Answers(fleet), subjects(fleet), []
    for name, metric in METRICS.items():
        if name not in wanted:
            continue
        labels: list[dict[str, str]] = []
        series: list[int] = []
        ts: list[int] = []
        values: list[float] = []
        for subject in everyone[metric.label]:
            for one in metric.make(fleet, subject):
                if isinstance(one, Usage):
                    minutes = np.arange(one.first, one.last)
                    number = np.full(len(minutes), one.pod.number)
                    told = fleet.sample_ms(number, minutes).tolist()
                    printed = answers.printed(one, minutes)
                else:
                    steps = [(m, value) for a, b, value in one.steps for m in range(a, b)]
                    told = [answers.scrape_ms(minute) for minute, _ in steps]
                    printed = [value for _, value in steps]
                series += [len(labels)] * len(told)
                labels.append({k: v for k, v in one.labels.items() if k != "__name__"})
                ts += told
                values += map(float, printed)
        frame = pl.DataFrame(labels, infer_schema_length=None)
        found.append(Family(name, frame, np.array(series), np.array(ts), np.array(values)))
    return found
