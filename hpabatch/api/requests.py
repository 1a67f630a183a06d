"""Requests of all commands, by the command's name; the options of each are its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpabatch.engine.advise.request import AdviseRequest, RecommendRequest
from hpabatch.engine.analyze.request import AnalyzeRecordedRequest, AnalyzeRequest
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.compare.request import CompareRequest
from hpabatch.engine.explain.request import DescribeRequest, ExplainRequest, GetRequest
from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.gate.request import GateRequest
from hpabatch.engine.quality.request import QualityRequest
from hpabatch.engine.replay.request import ReplayRequest, ReplayToRequest
from hpabatch.engine.simulate.request import SimulateRequest
from hpabatch.engine.sweep.request import SweepToRequest
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.table.request import TableRequest
from hpabatch.inputs.request import LintRequest, ValidateRequest
from hpabatch.live.loop.request import LiveRequest, RecordRequest
from hpabatch.model.options import Request
from hpabatch.report.page.request import ReportRequest
from hpabatch.report.pictures.request import PlotRequest

REQUESTS: Final[Mapping[str, type[Request]]] = {
    "import table": TableRequest,
    "import prometheus": PrometheusRequest,
    "replay": ReplayToRequest,
    "report": ReportRequest,
    "findings": ReplayRequest,
    "explain": ExplainRequest,
    "get": GetRequest,
    "describe": DescribeRequest,
    "compare": CompareRequest,
    "analyze": AnalyzeRequest,
    "validate": ValidateRequest,
    "lint": LintRequest,
    "gate": GateRequest,
    "fit": FitRequest,
    "fidelity": FidelityRequest,
    "simulate": SimulateRequest,
    "sweep": SweepToRequest,
    "recommend": RecommendRequest,
    "advise": AdviseRequest,
    "plan": PlanRequest,
    "plot": PlotRequest,
    "live": LiveRequest,
    "record": RecordRequest,
    "history quality": QualityRequest,
}

__all__ = ["REQUESTS", "AnalyzeRecordedRequest", "ReplayRequest", "Request"]
__all__ += [kind.__name__ for kind in REQUESTS.values()]
