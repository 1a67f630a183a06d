"""Decisions of every kind, each explained word for word in `scenes.txt`.

`python -m tests.report.explain.scenes` writes that file anew: read the difference before it is
kept. Unless said otherwise the tolerance is 0.1, a pod requests 1000m of cpu, and the controller
has been running for long; the sync is at 22:13:20.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hpabatch.engine.explain.facts import Explanation
from hpabatch.layout import codes
from hpabatch.model.versions import ControllerFlags
from hpabatch.report.explain.document import summary_sentence
from hpabatch.report.explain.steps import explanation_steps
from tests.engine.explained import explained
from tests.rules.helpers import (
    EXACT_WISH,
    FETCH_FAILED,
    NO_TOLERANCE,
    SCALED_TO_ZERO,
    START_MS,
    Json,
    Pod,
    external,
    hpa_spec,
    object_metric,
    pods_metric,
    policies,
    resource,
    resources_of,
    some,
    status_with,
    tick,
    total,
    usages,
    wish,
)

APPROVED: Final = Path(__file__).with_name("scenes.txt")
CPU: Final = resource(60)
AVERAGE: Final = object_metric(average="30")
MEMORY: Final = resource(average="400Mi", name="memory")
OURS: Final = status_with(SCALED_TO_ZERO)
DOWN: Final = policies(("Percent", 90, 15), stabilizationWindowSeconds=0)
UP_4: Final = policies(("Pods", 4, 60))

Scene = tuple[str, Explanation]


def last(*args: Any, **options: Any) -> Explanation:
    """Return the explanation of the last of some ticks of a spec."""
    spec, *ticks = args
    return explained(spec, ticks, **({"recommendations": [(1, -7200)]} | options))[-1]


def of_pods(metric: Json, pods: list[Pod], current: int, **options: Any) -> Explanation:
    """Return the explanation of one metric of pods."""
    return last(hpa_spec(metric), tick(0, current, pods), **options)


def wished(
    behavior: Json | None, *ticks: Any, low: int = 1, high: int = 1000, **options: Any
) -> Explanation:
    """Return the explanation of a metric that asks for the number that it is told."""
    spec = hpa_spec(EXACT_WISH, low=low, high=high, behavior=behavior)
    return last(spec, *ticks, **({"flags": NO_TOLERANCE} | options))


def missing(count: int) -> list[Pod]:
    """Return pods without a sample."""
    return some(count, None)


def unready(count: int) -> list[Pod]:
    """Return pods that have never been ready."""
    return some(count, 999, ready="False", transition_s=-86_400)


def scenes() -> Iterator[Scene]:
    """Generate the name of each scene and its explanation."""
    yield from _metrics_of_pods()
    yield from _totals()
    yield from _metrics_together()
    yield from _windows()
    yield from _policies()
    yield from _other_paths()


def _metrics_of_pods() -> Iterator[Scene]:
    yield "above the target", of_pods(CPU, some(3, 1200), 3)
    yield "on target", of_pods(CPU, some(3, 600), 3)
    yield "e1: missing pods are charged their request", of_pods(CPU, some(8, 200) + missing(2), 10)
    pods = some(3, 500) + missing(2)
    yield "e4: a target above 100 charges them the target", of_pods(resource(150), pods, 5)
    yield "e4 of 1.20: their request", of_pods(resource(150), pods, 5, k8s="1.20")
    yield "one missing pod", of_pods(resource(150), some(3, 500) + missing(1), 4)
    yield "missing pods on the way up", of_pods(CPU, some(4, 850) + missing(2), 6)
    yield "missing pods at a ratio of 1", of_pods(CPU, some(3, 600) + missing(2), 5)
    yield "missing pods of an average", of_pods(pods_metric("60m"), some(8, 20) + missing(2), 10)
    yield "one missing pod of an average", of_pods(pods_metric("60m"), some(8, 20) + missing(1), 9)
    for k8s in ("1.38", "1.20"):
        pods = some(3, 600) + missing(2)
        found = of_pods(pods_metric("600m"), pods, 5, k8s=k8s, flags=NO_TOLERANCE)
        yield f"e12 of {k8s}: an average of exactly the target", found
    yield "unready pods on the way up", of_pods(CPU, some(3, 1200) + unready(1), 4)
    yield "unready pods on the way down", of_pods(CPU, some(5, 300) + unready(2), 7)
    cut = some(2, 373) + some(1, 372)
    yield "an average is truncated", of_pods(resource(average="450m"), cut, 3)
    for used in (2**28 * 1000, 70_234_521_600, 5137 * 2**10 * 1000, 2**30 * 1500, 2**40 * 5000):
        yield f"memory, {used}m a pod", of_pods(MEMORY, some(2, used), 2)
    for used, request in ((199, 300), (299_999_999, 300_000_000), (2**62, 2**62)):
        yield f"{used}m of {request}m", of_pods(CPU, [Pod(used, request=request)], 1)
    for k8s in ("1.38", "1.32"):
        yield f"e8 of {k8s}: the tolerance's end", of_pods(CPU, some(3, 660), 3, k8s=k8s)
    wide = ControllerFlags(tolerance=0.7)
    yield "a tolerance's last bit", of_pods(resource(10), some(3, 30), 3, flags=wide)
    yield "missing pods turn the ratio", of_pods(resource(50), some(3, 300) + missing(2), 5)
    grown = some(8, 300) + missing(4)
    yield "a guard against growing", of_pods(CPU, grown, 6, flags=NO_TOLERANCE)
    for k8s in ("1.38", "1.37"):
        yield f"pods of every group in {k8s}", of_pods(CPU, EVERY_GROUP, 12, k8s=k8s)
    pods = some(3, 50)
    spec = hpa_spec(pods_metric("60m"))
    yield "samples of unknown pods", last(spec, tick(0, 3, pods, [usages(pods, [70])]))
    yield "more pods than asked for", of_pods(CPU, some(13, 720), 10)
    yield "pods that differ", of_pods(CPU, some(2, 100) + some(1, 1800), 3)
    yield "no pod", last(hpa_spec(CPU), tick(0, 2, [], [usages([Pod(1)])]))
    yield "no ready pod", of_pods(CPU, unready(2), 2)
    yield "no request", of_pods(CPU, [Pod(1, resources=resources_of(None))], 1)
    yield "a request of 0", of_pods(CPU, [Pod(1, request=0)], 1)
    spec = hpa_spec(CPU)
    spec = replace(spec, metrics=(replace(spec.metrics[0], type="X"),))
    yield "a metric of unknown type", last(spec, tick(0, 2, some(2, 1)))


EVERY_GROUP: Final = [
    Pod(600),
    Pod(1, phase="Failed"),
    Pod(1, phase="Succeeded"),
    Pod(1, deleting=True),
    Pod(1, phase="Pending", ready=None),
    Pod(None),
    Pod(1, ready=None),
    Pod(1, start_s=None),
    Pod(1, ready="False", start_s=-40, transition_s=-35),
    Pod(1, start_s=-90, transition_s=-20, sample_s=-5),
    Pod(1, ready="False", start_s=-900, transition_s=-880),
    Pod(1, ready="False", start_s=-900, transition_s=-10),
]


def _totals() -> Iterator[Scene]:
    value = hpa_spec(external(value="100"))
    pods = [*some(2, 1), Pod(ready="False"), Pod(phase="Pending", ready=None)]
    yield "a value times the ready pods", last(value, tick(0, 3, pods, [total(500_000, -20)]))
    yield "a value of one pod", last(value, tick(0, 1, [Pod(1)], [total(500_000)]))
    one = hpa_spec(object_metric(value="1"))
    yield "a value on target", last(one, tick(0, 3, [], [total(1050)]))
    yield "a value without any pod", last(one, tick(0, 3, [], [total(5000)]))
    zero = tick(0, 0, [], [total(150_000)])
    yield "a value from zero", last(hpa_spec(external(value="100"), low=0), zero, status=OURS)
    average = hpa_spec(AVERAGE)
    for milli, current, status in (
        (90_000, 2, 2), (62_000, 3, 2), (91_000, 2, 3), (91_000, 4, 3), (0, 1, 0), (5, 1, 0),
    ):  # fmt: skip
        sync = tick(0, current, [], [total(milli)], status=status)
        yield (
            f"{milli}m for {status} replicas of the status, {current} asked for",
            last(average, sync),
        )
    nothing = tick(0, 1, [], [total(0)], status=0)
    yield "0 of 0 replicas in 1.32", last(average, nothing, k8s="1.32")
    each = hpa_spec(external(average="1"))
    yield "a sum that is capped", last(each, tick(0, 1, [], [total(-5000, 10_000)]))
    yield "ten series", last(each, tick(0, 1, [], [total(*[1000] * 10)]))
    negative = hpa_spec(object_metric(average="1"))
    yield "a negative proposal", last(negative, tick(0, 5, [], [total(-3000)]))


def _metrics_together() -> Iterator[Scene]:
    spec = hpa_spec(external(average="1"), external(average="1", name="b"))
    yield "equal proposals", last(spec, tick(0, 2, [], [total(3000), total(3000)]))
    spec = hpa_spec(CPU, EXACT_WISH)
    for size in (4, 5, 7):  # e17 to e19
        found = last(spec, tick(0, 5, [], [FETCH_FAILED, total(1000 * size)]), flags=NO_TOLERANCE)
        yield f"one of two metrics failed, the other asks for {size} of 5", found
    yield "all of two metrics failed", last(spec, tick(0, 5, [], [FETCH_FAILED] * 2))
    yield "the only metric failed", last(hpa_spec(CPU), tick(0, 5, [], [FETCH_FAILED]))
    three = hpa_spec(CPU, EXACT_WISH, external(average="1", name="lag"))
    answers = [FETCH_FAILED, total(7000), total(1200)]
    yield "one of three failed", last(three, tick(0, 5, [], answers), flags=NO_TOLERANCE)
    near = [usages(some(3, 600)), total(2000)]
    yield "the most is on target", last(spec, tick(0, 3, some(3, 600), near))
    pods = some(4, 850) + missing(2) + unready(1)
    spec = hpa_spec(CPU, EXACT_WISH, pods_metric("60m"), behavior={"scaleUp": UP_4})
    yield (
        "every kind of step",
        last(spec, tick(0, 7, pods, [usages(pods), total(9000), FETCH_FAILED])),
    )


def _windows() -> Iterator[Scene]:
    # A recommendation at the cutoff exactly still counts without behavior (e30).
    held = [(9, -301), (4, -300), (7, -240), (7, -200)]
    yield (
        "e30: the window without behavior",
        wished(None, wish(0, 5, 3), high=10, recommendations=held),
    )
    held = [(9, -301), (7, -200)]
    yield "a window and then a bound", wished(None, wish(0, 5, 3), high=6, recommendations=held)
    up = {"scaleUp": {"stabilizationWindowSeconds": 60}}
    for name, size, held, k8s in (
        ("e31: two windows", 9, [(6, -60), (7, -59), (11, -200)], "1.38"),
        ("many recommendations", 9, [*((k, -290 + 10 * k) for k in range(8)), (6, -59)], "1.38"),
        ("the same on the way up of 1.20", 9, [(7, -220), (6, -59)], "1.20"),
        ("the same on the way down of 1.20", 2, [(7, -220), (6, -59)], "1.20"),
        ("windows on both sides", 6, [(4, -30), (8, -30)], "1.38"),
        ("windows on both sides in 1.20", 6, [(4, -30), (8, -30)], "1.20"),
        ("the up window keeps the size", 9, [(5, -59)], "1.38"),
        ("the size is between the ends, on the way up", 9, [(3, -59)], "1.38"),
        ("the size is between the ends, on the way down", 3, [(8, -100)], "1.38"),
    ):
        yield name, wished(up, wish(0, 5, size), recommendations=held, k8s=k8s)
    spec = hpa_spec(EXACT_WISH)
    ticks = [wish(0, 3, 3), wish(15, 3, 3), wish(30, 3, 3, restart=True)]
    names = ("a fresh controller", "its second sync", "a controller that forgot")
    yield from zip(names, explained(spec, ticks, flags=NO_TOLERANCE), strict=True)
    fresh = explained(hpa_spec(CPU), [tick(0, 3, some(3, 600), restart=True)])[0]
    start = replace(fresh.start, restarted_ms=START_MS - 2000)
    yield "a restart at a known time", replace(fresh, start=start)


def _policies() -> Iterator[Scene]:
    rules = policies(("Pods", 4, 60), ("Percent", 10, 3600))
    spent = (wish(0, 2, 20), wish(40, 6, 20))
    yield "e24: a spent budget", wished({"scaleUp": rules}, *spent, high=9)
    yield "a budget that is free again", wished({"scaleUp": UP_4}, wish(0, 2, 20), wish(60, 6, 20))
    least = {"scaleUp": rules | {"selectPolicy": "Min"}}
    yield "the smallest change", wished(least, wish(0, 10, 20))
    given_back = {"scaleUp": UP_4, "scaleDown": {"stabilizationWindowSeconds": 0}}
    ticks = (wish(0, 2, 20), wish(30, 6, 3), wish(40, 3, 20))
    for k8s in ("1.38", "1.20"):
        yield f"e25 of {k8s}: removed pods", wished(given_back, *ticks, k8s=k8s)
    percent = {"scaleUp": policies(("Percent", 10, 15))}
    yield "e26: a percentage up is computed in floats", wished(percent, wish(0, 100, 900))
    down = policies(("Percent", 90, 15), ("Pods", 2, 60), stabilizationWindowSeconds=0)
    yield "e27: a percentage down truncates", wished({"scaleDown": down}, wish(0, 10, 0))
    down = down | {"selectPolicy": "Min"}
    yield "the smallest change down", wished({"scaleDown": down}, wish(0, 10, 0))
    moved = (wish(0, 1, 20), wish(15, 11, 20))
    yield "a move to the minimum overspends", wished({"scaleUp": UP_4}, *moved, low=11)
    disabled = {"scaleDown": DOWN | {"selectPolicy": "Disabled"}}
    yield "scaling down is disabled", wished(disabled, wish(0, 5, 2))
    yield "no policy is asked", wished(disabled, wish(0, 3, 3))
    yield "scaling up is disabled", wished({"scaleUp": {"selectPolicy": "Disabled"}}, wish(0, 5, 9))
    yield "the minimum binds", wished({"scaleDown": DOWN}, wish(0, 5, 1), low=3)
    much = {"scaleUp": policies(("Percent", 900, 15))}
    yield "the maximum binds", wished(much, wish(0, 5, 20), high=12)
    yield "the minimum binds without behavior", wished(None, wish(0, 5, 1), low=3)
    yield "the maximum binds without behavior", wished(None, wish(0, 8, 20), high=12)


def _other_paths() -> Iterator[Scene]:
    yield "above the maximum", of_pods(CPU, some(3, 1), 1001)
    yield "below the minimum", last(hpa_spec(CPU, low=3), tick(0, 2, some(2, 1)))
    for k8s in ("1.35", "1.36", "1.38"):
        yield f"a target at zero in {k8s}", of_pods(CPU, [], 0, k8s=k8s)
    found = last(hpa_spec(CPU, low=0), tick(0, 0), status=OURS, gate=True)
    yield "a target at zero that nothing can wake", found
    raised = hpa_spec(external(value="100"), low=2, behavior={"scaleUp": policies(("Pods", 1, 60))})
    woken = last(raised, tick(0, 0, [], [total(0)]), status=OURS)
    yield "e23: from zero to the minimum at least", woken
    spec = hpa_spec(CPU)
    wrong: Any = {"scale_error": "conflict"}
    for name, code in (("read", codes.SCALE_GET_FAILED), ("written", codes.SCALE_UPDATE_FAILED)):
        yield (
            f"a scale that is not {name}",
            last(spec, tick(0, 3, some(3, 900), scale=code, **wrong)),
        )
    forced = tick(0, 3, scale=codes.SCALE_UPDATE_FAILED, **wrong)
    yield "a bound that is not written", last(hpa_spec(CPU, high=2), forced)
    unknown = last(spec, tick(0, 3, scale=codes.SCALE_UNKNOWN))
    yield "a scale that was not recorded", unknown
    later = replace(unknown.scale, next_ms=START_MS + 5000)
    yield "a scale that was recorded later", replace(unknown, scale=later)
    for name, code in (
        ("no selector", codes.SELECTOR_MISSING),
        ("an ambiguous selector", codes.SELECTOR_AMBIGUOUS),
    ):  # fmt: skip
        yield name, last(spec, tick(0, 3, some(3, 1), selector=code, selector_error="two of them"))
    found = of_pods(CPU, some(1, 600), 1)
    scale = replace(
        found.scale,
        selector="app=web",
        since_ms=START_MS - 86_400_000,
        next_ms=START_MS + 90_000,
        next_replicas=4,
    )
    yield "the recorded scale", replace(found, scale=scale)
    yield "a change that no rule made", replace(found, scale=replace(scale, next_foreign=True))


def text() -> str:
    """Return all scenes as `scenes.txt` has them.

    Upstream functions, conditions and what is told of the status stand where they are new.
    """
    parts, known = [], set()
    for name, explanation in scenes():
        lines = [f"# {name}"]
        for step in explanation_steps(explanation):
            metric = "" if step.metric is None else f"{step.metric} "
            line = f"{metric}{step.step}: {step.text}"
            if step.step in ("condition", "status") and line in known:
                continue
            source = f"{step.step} {step.upstream}"
            lines.append(line if source in known else f"{line}  [{step.upstream}]")
            known |= {line, source}
        parts.append("\n".join([*lines, summary_sentence(explanation)]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    APPROVED.write_text(text())
