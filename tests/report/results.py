"""A result of each class, made by hand, with names that attack who reads them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import polars as pl

from hpabatch.api.analysis import Given, analyze_each
from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.run import Recommendations, recommend
from hpabatch.engine.analyze.request import AnalyzeRequest
from hpabatch.engine.capacity.run import CapacityOptions
from hpabatch.engine.compare.frames import find_differences, side_by_side
from hpabatch.engine.compare.run import VERSIONS, Comparison
from hpabatch.engine.compare.sides import LeftOut
from hpabatch.engine.fit.run import Fitted, FleetFit
from hpabatch.engine.fit.workload import FITTED, NOT_IDENTIFIED, OPEN, Fact
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.requested import Requested
from hpabatch.engine.replay.decisions import SCHEMA as TICK_SCHEMA
from hpabatch.engine.replay.score import score
from hpabatch.engine.simulate.result import run_loop
from hpabatch.engine.simulate.run import LoopOptions
from hpabatch.inputs.manifests import check_manifests, load_manifests
from hpabatch.inputs.prices import PriceList, Prices
from hpabatch.jobs.replay import ReplayDone
from hpabatch.model.quota import Limit, Quota
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.report.advise import DataAdvice
from hpabatch.report.base import Result
from hpabatch.report.capacity import Plan
from hpabatch.report.compare import Compared
from hpabatch.report.fit import Fits
from hpabatch.report.history import FrameResult
from hpabatch.report.recommend import Advice
from hpabatch.report.replay import Replay
from hpabatch.report.simulate import Simulation
from hpabatch.report.sweep import SweepScreen
from hpabatch.report.validation import Validation
from tests.cli.look.test_analyze import QUEUE, WEB
from tests.engine.made import decisions, hpas, summarize
from tests.engine.planned import loop_of, planned
from tests.engine.simulated import hpa_spec, small_case
from tests.report.test_sweep import made, row
from tests.sweeps import SweepMaker, put, weeks

NASTY: Final = "api\x1b[1m\n|*"
EVIDENCE: Final = {
    "k8s": "1.38",
    "k8s_source": "given",
    "k8s_evidence": "proved",
    "k8s_proof": "against upstream's code",
    "events": "recorded",
    "sync_period": "15000 ms (recorded)",
    "delay": "0 ms (assumed)",
    "max_age": "150000 ms (estimated)",
}
SKIPPED: Final = (Skipped("demo", "shop", f"lost {NASTY}", f"never measured {NASTY}"),)
MANIFESTS: Final = "---\n".join(
    [
        WEB.replace("Deployment, name: web", f"Deployment, name: {json.dumps(NASTY)}"),
        QUEUE.replace("jobs", "jobs" * 12),
    ]
)


def replay(top: int = 3) -> Replay:
    """Return a replay of an HPA that rescales as decided, one at its maximum, and idle ones."""
    idle = [f"idle-{k:02}" for k in range(21)]
    move = {"replicas": 3, "applied": 5, "desired": 5, "rescaled": True}
    ticks: list[dict[str, Any]] = [
        *[{}] * 4, move, *[{"replicas": 5, "applied": 5, "desired": 5}] * 4,
        {"replicas": 5, "applied": 3, "desired": 5}, {"replicas": 3, "applied": 5, "desired": 5},
        *[{"hpa": NASTY, "binding": "max", "replicas": 90, "applied": 90, "desired": 91}] * 3,
        *({"hpa": name, "cluster": "east"} for name in idle for _ in range(2)),
    ]  # fmt: skip
    fleet = pl.concat([hpas("cart", NASTY), hpas(*idle, cluster="east")])
    frame = decisions(ticks)
    scored = score(frame, fleet)
    done = ReplayDone(SKIPPED, ("odd",), dict(EVIDENCE), summarize(frame, fleet), scored)
    return Replay(done, None, "out/d.parquet", top, "history", scored)


def plan() -> Plan:
    """Return the plan of a burst, and of one whose work is a lower bound."""
    burst = replace(
        small_case(hpa_spec(50, 1, 4), [400] * 3 + [3000] * 6 + [500] * 5, capacity_milli=500),
        requested=Requested(1000, 500 * 2**30),
    )
    bound = replace(burst, workload=replace(burst.workload, hpa=NASTY, namespace="jobs"))
    prices = PriceList(Prices(core_hour=0.5, gib_hour=0.1, pod_hour=0.25, currency="EUR"))
    quotas = (Quota("shop", "team", {"cores": Limit(5000, "cpu", "team")}),)
    options = CapacityOptions((1000, 2000), loop=LoopOptions(prices=prices), quotas=quotas)
    censored = {("demo", "jobs", NASTY): 30.0}
    found = planned(burst, bound, options=options, censored=censored, skipped=SKIPPED)
    evidence = found.evidence | EVIDENCE | {"hpabatch": "0"}
    return Plan.of(replace(found, evidence=evidence), written=["sums: x"])


def simulation() -> Simulation:
    """Return the simulation of the same burst under its own setting."""
    case = small_case(hpa_spec(50, 1, 4), [400] * 3 + [3000] * 6, capacity_milli=500)
    bad = replace(case, workload=replace(case.workload, hpa=NASTY))
    loop = loop_of(case, bad, skipped=SKIPPED, problems={("demo", "shop", NASTY): ("why",)})
    loop = replace(loop, evidence=EVIDENCE | {"seed": "0"}, facts=dict.fromkeys(loop.problems, ()))
    return Simulation.of(run_loop(loop, LoopOptions()), written=["trajectories: x"])


def comparison() -> Comparison:
    """Return two HPAs that decide differently and one that explains itself differently."""

    def side(*ticks: dict[str, Any]) -> pl.DataFrame:
        kinds: Any = {name: TICK_SCHEMA[name] for name in ("binding", "error")}
        return decisions(list(ticks)).cast(kinds)

    small = {"desired": 3, "binding": "tolerance"}
    large = {"hpa": "web", "desired": 5, "binding": "metric", "rescaled": True}
    failed = small | {"hpa": NASTY, "desired": None, "error": "no metrics returned"}
    before = side(large, large, small | {"hpa": NASTY}, small | {"hpa": "words"})
    after = side(*[small | {"hpa": "web"}] * 2, failed, small | {"hpa": "words", "proposal": 7})
    cause = {
        "cause": "tolerance_by_bounds",
        "how": "alone",
        "rule": "tolerance_by_bounds off -> on",
    }
    rows = find_differences(side_by_side(before, after))[0]
    rows = rows.with_columns(pl.lit(value).alias(name) for name, value in cause.items())
    evidence = EVIDENCE | {"from": "1.32", "to": "1.37", "k8s_from": "1.32", "k8s_to": "1.37"}
    left_out = tuple(LeftOut("demo", "shop", f"zero{k}", "1.32", NASTY) for k in range(2))
    return Comparison(
        VERSIONS, ("1.32", "1.37"), rows, hpas=4, ticks=5, left_out=left_out,
        warnings=("a warning",), evidence=evidence,
    )  # fmt: skip


def recommendations() -> Recommendations:
    """Return one clear change, one that ends a broken SLO, one keep and one without advice."""

    def cores(today: float, choice: float, **measures: Any) -> dict[int, Any]:
        return {
            k: weeks([v] * 6, core_hours=[v] * 6, **measures) for k, v in enumerate((today, choice))
        }

    maker = SweepMaker([{"max": "20"}])
    maker.add("api", cores(168, 126)).add(NASTY, cores(168, 160), days=10.0)
    broken = cores(84, 168, at_max_minutes=[6000.0] * 6)
    broken[0] |= {"saturated_minutes": [50.0] * 6}
    maker.add("pinned", broken).add("same", cores(10, 10))
    maker.add("new", cores(10, 5), controller_answer="wrong", why_not="the settings differ")
    result = maker.result()
    result = replace(result, parameters={**result.parameters, "request": {}})
    goal = parse_goal(["saturated_minutes<10/week"], "pod_hours")
    return recommend(result, RecommendOptions(goal), put)


def sweep() -> SweepScreen:
    """Return a sweep of two HPAs, of one of which today's row is not to be relied on."""
    unknown = {"saturated_minutes": None, "unserved": None}
    result = made(
        row("api", 0, saturated_minutes=12.0, short_pod_hours=4.0, pod_hours_recorded=120.0),
        row("api", 1, pod_hours=72.5, short_pod_hours=6.0),
        row(NASTY, 0, usable=False, pod_hours=1234.5, **unknown),
    )
    parameters = {**result.parameters, "skipped": [["demo", "shop", "old", "why"]]}
    return SweepScreen.of(replace(result, parameters=parameters), out="sweep/")


def fits() -> Fits:
    """Return an HPA with a plant and one without."""

    def fact(name: str, value: float | None, source: str, high: float | None = None) -> Fact:
        return Fact(
            f"signals.resource/cpu.{name}", value, "cores", value if high else None, high, source
        )

    facts = (
        Fact("signals.resource/cpu.kind", None, "", None, None, FITTED, "divisible"),
        fact("base", 0.004, FITTED, 0.02),
        fact("ceiling", None, OPEN),
        Fact("pods.startup", 12.0, "s", 9.0, 30.0, FITTED),
    )
    unknown = (facts[0], fact("base", 0.0, NOT_IDENTIFIED, 0.08))
    items = (
        Fitted("demo", "shop", "web", True, facts, ()),
        Fitted("demo", "shop", "weak", True, unknown, ()),
        Fitted("demo", "shop", NASTY, False, (), ("no sample of its metrics",)),
    )
    return Fits(FleetFit(items, SKIPPED, ("odd",), EVIDENCE | {"lens": "resource/cpu lag 30s"}))


def analysis(one: bool = False) -> Result:
    """Return the static analysis of two manifests, or the screen of the first."""
    profile = profile_for("1.37")
    checked = check_manifests(
        load_manifests(["-"], io.BytesIO(MANIFESTS.encode())).entries, profile
    )
    given = [
        Given(item.entry.source, item.entry.line, item.hpa, ControllerFlags(), profile)
        for item in checked
        if item.hpa is not None
    ]
    return replace(analyze_each(given, AnalyzeRequest(paths=("-",))), one=one)


def validation() -> Validation:
    """Return a valid, a refused and an unreadable document."""
    text = f"{MANIFESTS}---\n{MANIFESTS.partition('---')[0].replace(': 10', ': 0')}---\na: ["
    found = load_manifests(["-"], io.BytesIO(text.encode()))
    profile = profile_for("1.37")
    return Validation(check_manifests(found.entries, profile), {"Service": 1}, profile)


RESULTS: Final[dict[str, Callable[[], Result]]] = {
    "replay": replay,
    "plan": plan,
    "simulate": simulation,
    "compare": lambda: Compared.of(comparison()),
    "compare-strict": lambda: Compared.of(comparison(), top=1, strict=True),
    "recommend": lambda: Advice(recommendations(), ["written to x"], ["a warning"]),
    "advise": lambda: DataAdvice(
        recommendations(), ["written to x"], folder="advice", history="history"
    ),
    "sweep": sweep,
    "fit": fits,
    "analyze": analysis,
    "analyze-one": lambda: analysis(one=True),
    "validate": validation,
    "frame": lambda: FrameResult(pl.DataFrame({"hpa": [NASTY] * 3, "rows": [1, None, 3]})),
}
