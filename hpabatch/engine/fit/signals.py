"""The fit of one signal of a workload, by its kind."""

from __future__ import annotations

from collections.abc import Mapping

from hpabatch.engine.fit.age import fit_age
from hpabatch.engine.fit.measured import (
    OF_TOTALS,
    Measured,
    SignalFit,
)
from hpabatch.engine.fit.total import fit_total
from hpabatch.engine.fit.work import fit_work
from hpabatch.model.plant import AGE


def fit_signal(measured: Measured, others: Mapping[str, Measured]) -> SignalFit:
    """Return the fit of one signal; `others` are all of the workload, for their work rates."""
    if measured.kind in OF_TOTALS:
        return fit_total(measured)
    if measured.kind == AGE:
        return fit_age(measured)
    return fit_work(measured, others)
