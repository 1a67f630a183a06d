"""The fit of Object and External metrics: exogenous totals, and queues that pods empty."""

from __future__ import annotations

import numpy as np

from hpabatch.engine.fit.measured import (
    Measured,
    SignalFit,
    kind_fact,
    work_fact,
)
from hpabatch.engine.fit.overrides import unit_of
from hpabatch.engine.fit.pipeline import api_of
from hpabatch.engine.fit.series import (
    filled,
    gaps_of,
)
from hpabatch.engine.fit.stats import F64
from hpabatch.engine.fit.workload import FITTED, GIVEN, Fact
from hpabatch.model.plant import BACKLOG, Signal


def fit_total(m: Measured) -> SignalFit:
    """Return the fit of an Object or External metric: its series is the work, or what is left."""
    facts = [kind_fact(m)]
    rate = 0
    if m.kind == BACKLOG:
        rate = m.stated.rate_milli or 0
        raw, idle = _arrivals(m, rate)
        facts.append(Fact(f"signals.{m.name}.rate", rate / 1000, "/s", None, None, GIVEN))
        note = "of the cells the queue stayed empty: arrivals are no more than the pods could do"
        facts.append(Fact(f"signals.{m.name}.idle", idle, "", None, None, FITTED, note))
    else:
        raw = m.series.usage
    work = np.rint(np.maximum(filled(raw), 0.0)).astype(np.int64)
    facts.append(work_fact(m, work, unit_of(m.name)))
    return SignalFit(
        signal=Signal(kind=m.kind, api=api_of(m.signal), rate_milli=rate),
        work=work,
        censored=np.zeros(m.cells.count, bool),
        gaps=gaps_of(m.series, m.signal, m.cells),
        facts=tuple(facts),
        at_limit=False,
        work_share=1.0,
    )


def _arrivals(m: Measured, rate: int) -> tuple[F64, float]:
    """Return what arrived per second in each cell (milli), and how often the queue stayed empty.

    arrivals = growth of the queue + pods × rate, as long as there is work. Of a cell at whose
    both ends the queue was empty only an upper bound is known: straight lines below it.
    """
    queue, cells = filled(m.series.usage), m.cells
    ready = m.usage.lives.ready_at(cells.starts_ms + cells.resolution_ms // 2)
    served = ready * float(rate)
    grown = np.append(np.diff(queue), 0.0) * 1000 / cells.resolution_ms
    after = np.append(queue[1:], queue[-1:])
    idle = (queue <= 0) & (after <= 0)
    arrived = np.where(idle, np.nan, np.maximum(grown + served, 0.0))
    known = np.isfinite(arrived)
    through = np.minimum(filled(arrived), served) if known.any() else np.zeros(cells.count)
    return np.where(idle, through, arrived), float(idle.mean())
