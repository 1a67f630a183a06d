"""Results of imported tables: times, percentages, shared selectors, guesses, ticks of changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hpabatch
from hpabatch.api.replays import replay
from hpabatch.api.statuses import explain
from hpabatch.engine.explain.request import ExplainRequest
from hpabatch.engine.replay.request import ReplayRequest
from hpabatch.errors import UsageError
from hpabatch.history.provenance import guesses_told
from hpabatch.history.reader import open_history
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.propose.run import propose, propose_map
from hpabatch.report.replay import Replay
from tests.cli.commands import runner
from tests.importers.table.propose.makes import per_workload, quantities
from tests.importers.tables import (
    BEGIN_S,
    WORKLOAD_MAP,
    import_table,
    merged,
    run_import,
    write_csv,
    write_map,
)

SECONDS = """\
second,deployment_current_replicas,pod_cpu_cores
0,1,0.0011
30,1,0.0826
60,4,0.1372
"""
RELATIVE: dict[str, Any] = {
    "level": "workload",
    "columns": {
        "time": {"column": "second", "unit": "s"},
        "workload": {"value": "app"},
        "replicas": "deployment_current_replicas",
        "cpu": {"column": "pod_cpu_cores", "unit": "cores", "of": "sum"},
    },
}
WATCH = """\
time,hpa,target_pct,current_pct,replicas,min,max
2021-11-04T08:04:28Z,ping-adapter,80,81,1,1,3
2021-11-04T08:04:43Z,ping-adapter,80,81,1,1,3
2021-11-04T08:04:58Z,ping-adapter,80,95,1,1,3
2021-11-04T08:05:13Z,ping-adapter,80,60,2,1,3
"""
QUEUE = """\
ts,app,size,queue,rps
2026-10-07T12:00:00Z,worker,1,8,100
2026-10-07T12:00:30Z,worker,2,95,900
"""
SHARED: dict[str, Any] = {
    "level": "workload",
    "columns": {
        "time": "ts",
        "workload": "app",
        "replicas": "size",
        "metrics": {
            "depth": {"column": "queue", "type": "External", "selector": "queue=orders"},
            "rps": {"column": "rps", "type": "Object", "object": "Ingress/web"},
        },
    },
}


def times(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """Return the times of the usage."""
    return tables["pod_metrics"]["ts"].unique().sort().dt.strftime("%F %T").to_list()


@pytest.mark.parametrize(("unit", "last"), [("s", "12:01:00"), ("m", "13:00:00")])
def test_relative_times_count_from_their_start(tmp_path: Path, unit: str, last: str) -> None:
    time = {"column": "second", "unit": unit, "start": "2026-10-07T12:00:00Z"}
    stated = {**RELATIVE, "columns": RELATIVE["columns"] | {"time": time}}
    _, tables = run_import(tmp_path, stated, SECONDS)
    assert times(tables)[-1] == f"2026-10-07 {last}"


def test_the_start_option_counts_instead_of_the_map(tmp_path: Path) -> None:
    _, tables = run_import(tmp_path, RELATIVE, SECONDS, start="2026-10-07 14:00")
    assert times(tables)[-1] == "2026-10-07 14:01:00"
    with pytest.raises(UsageError, match="--start: expected a date and time"):
        run_import(tmp_path, RELATIVE, SECONDS, start="14:00")


def test_a_map_of_relative_times_is_proposed_with_their_start(tmp_path: Path) -> None:
    source, place = write_csv(tmp_path, SECONDS), tmp_path / "map.yaml"
    propose([source], str(place), start="2026-10-07T12:00:00Z")
    assert "{column: second, unit: s, start: '2026-10-07T12:00:00Z'}" in place.read_text()
    import_table([source], place, tmp_path / "history")
    with pytest.raises(UsageError, match="--start: expected relative times, got '2021-11-04T08:04"):
        propose([write_csv(tmp_path, WATCH)], None, start="2026-10-07T12:00:00Z")


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """A history of percentages beside their target, by the map that is proposed for them."""
    source, place = write_csv(tmp_path, WATCH), tmp_path / "map.yaml"
    text = propose([source], str(place)).text
    assert "of: mean" in text
    assert "template: {min: 1, max: 3, cpu: 80%}" in text
    assert "guessed" not in text
    import_table([source], place, tmp_path / "history")
    return tmp_path / "history"


def verdict(history: Path, **options: Any) -> str:
    """Return the explanation of a decision on the only HPA."""
    request = ExplainRequest(name="default/ping-adapter", **options)
    return explain(open_history(history), request).text


def test_a_percentage_of_a_workload_is_the_mean_of_its_pods(watched: Path) -> None:
    grown = "goes from 1 to 2 replicas: cpu is at 95% of the requests (target 80%)"
    assert grown in verdict(watched)
    same = "stays at 1 replica: cpu is at 81% of the requests (target 80%), within the tolerance"
    assert same in verdict(watched, at="2021-11-04 08:04:30")


def test_stated_flags_and_requests_count_instead_of_recorded_ones(watched: Path) -> None:
    assert "stays at 1 replica" in verdict(watched, tolerance=0.2)
    halved = verdict(watched, requests=("ping-adapter=500m",))
    assert "to 3 replicas: cpu is at 190% of the requests" in halved
    with pytest.raises(UsageError, match="did you mean ping-adapter"):
        verdict(watched, requests=("ping-adaptor=1",))
    with pytest.raises(UsageError, match=r"--requests ping-adapter=x: expected \["):
        verdict(watched, requests=("ping-adapter=x",))


def test_values_that_are_no_pods(tmp_path: Path) -> None:
    _, tables = run_import(tmp_path, SHARED, QUEUE)
    found = tables["external_metrics"].select("metric", "selector", "series", "value_milli").rows()
    assert found == [("depth", "queue=orders", "", 8000), ("depth", "queue=orders", "", 95_000)]
    found = tables["object_metrics"].select("kind", "name", "metric", "value_milli").rows()
    assert found == [("Ingress", "web", "rps", 100_000), ("Ingress", "web", "rps", 900_000)]


def test_values_of_a_namespace_that_differ_are_told(tmp_path: Path) -> None:
    other = QUEUE + "2026-10-07T12:00:30Z,web,1,94,900\n"
    result, _ = run_import(tmp_path, SHARED, other)
    assert any("1 value: rows of one time" in text for text in result.warnings)


@pytest.mark.parametrize(
    "targets", [("80", "80", "40"), ("80", "80", "80")], ids=["of_each", "of_all"]
)
def test_settings_that_columns_state_are_those_of_the_hpas(
    tmp_path: Path, targets: tuple[str, str, str]
) -> None:
    names = ("ping-adapter", "ping-adapter", "cart")
    rows = [
        f"2021-11-04T08:0{k}:28Z,{name},{target},81,2,1,3\n"
        for k, (name, target) in enumerate(zip(names, targets, strict=True))
    ]
    source = write_csv(tmp_path, WATCH.partition("\n")[0] + "\n" + "".join(rows))
    text = propose([source], str(tmp_path / "map.yaml")).text
    of_each = len(set(targets)) > 1
    assert ("cart: {min: 1, max: 3, cpu: 40%}" in text) is of_each
    assert ("template: {min: 1, max: 3, cpu: 80%}" in text) is not of_each


WORKLOAD = """
- apiVersion: apps/v1
  kind: Deployment
  metadata: {{name: app-{name}, namespace: app}}
  spec:
    replicas: {replicas}
    selector: {{matchLabels: {{app: app}}}}
    template:
      metadata: {{labels: {{app: app, role: {name}}}}}
      spec: {{containers: [{{name: c, image: x, resources: {{requests: {{cpu: {cpu}}}}}}}]}}"""
OBJECTS = (
    "apiVersion: v1\nkind: List\nitems:"
    + WORKLOAD.format(name="frontend", replicas=2, cpu="200m")
    + WORKLOAD.format(name="backend", replicas=1, cpu="600m")
    + """
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: app-frontend, namespace: app}
  spec:
    minReplicas: 2
    maxReplicas: 10
    scaleTargetRef: {kind: Deployment, name: app-frontend, apiVersion: apps/v1}
    metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
"""
)
BACKEND = "app-backend-7f8d9c6b5d-k4j5h"
FRONTENDS = [f"app-frontend-6b5c9d7f4d-{end}" for end in ("x2x9k", "q7w2m", "n8v6c", "r4t5z")]


@pytest.fixture
def overlapping(tmp_path: Path) -> Path:
    """A history of two idle pods, from minute 5 on four, and a busy one of another Deployment."""
    lines = ["time,namespace,pod,cpu"]
    for step in range(29):
        time = f"2026-01-01T12:{step // 4:02}:{step % 4 * 15:02}Z,app"
        own = FRONTENDS[: 2 if step < 20 else 4]
        lines += [f"{time},{pod},5m" for pod in own] + [f"{time},{BACKEND},590m"]
    objects = tmp_path / "objects.yaml"
    objects.write_text(OBJECTS)
    cpu = {"column": "cpu", "unit": "quantity"}
    columns = {"time": "time", "namespace": "namespace", "pod": "pod", "cpu": cpu}
    place = write_map(tmp_path, {"level": "pod", "columns": columns})
    source = write_csv(tmp_path, "\n".join(lines) + "\n")
    import_table([source], place, tmp_path / "history", objects=[str(objects)])
    return tmp_path / "history"


@pytest.mark.parametrize(
    ("at", "change"),
    [
        ("12:04:45", "from 2 to 4 replicas: cpu is at 60% of the requests (target 50%), which asks "
         "for 4 replicas"),
        ("12:07:00", "from 4 to 5 replicas: cpu is at 43% of the requests (target 50%), which asks "
         "for 5 replicas"),
    ],
)  # fmt: skip
def test_a_pod_of_another_deployment_is_named(overlapping: Path, at: str, change: str) -> None:
    request = ExplainRequest(name="app/app-frontend", at=f"2026-01-01 {at}")
    text = explain(open_history(overlapping), request).text
    assert f"{BACKEND} 590m of 600m (of Deployment app-backend), app-frontend-" in text
    assert text.count("(of Deployment app-backend)") == 1
    sentence = f"goes {change}; it counts pod {BACKEND}, which belongs to Deployment app-backend; "
    assert sentence + "its pods differ: 2.5% (app-frontend-" in text


def test_a_replay_names_it(overlapping: Path) -> None:
    (warning,) = [w for w in replay(open_history(overlapping), ReplayRequest()).warnings
                  if "selector" in w]  # fmt: skip
    assert warning == (
        f"app/app-frontend: its selector matches pod {BACKEND}, which belongs to Deployment "
        "app-backend; the controller counts it, too: make the selectors of the workloads distinct"
    )


DOWN_AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}
HPA = {"template": {"min": 1, "max": 10, "cpu": "60%"}}
SAID: dict[str, Any] = {
    "requests": {"cpu": "1"}, "limits": None, "hpas": HPA,
    "lives": {"edge": "5m", "ran_before": "10m"},
}  # fmt: skip
AT_S = 900
BEGIN = BEGIN_S // 60 * 60  # on the grid of the syncs


def replayed(folder: Path, said: dict[str, Any], data: pl.DataFrame) -> Replay:
    run_import(folder, said, data)
    return hpabatch.open(folder / "history").replay(phase="0s", sync_period="15s")


def totals(before: tuple[int, float], *after: tuple[int, float], rest: tuple[int, float]) -> Any:
    """Return rows each 15 s: size and cores; `after` from AT_S on."""
    rows = [before] * (AT_S // 15) + [*after] + [rest] * 60
    return pl.DataFrame(
        {
            "ts": [BEGIN + 15 * k for k in range(len(rows))],
            "app": "cart",
            "size": [size for size, _ in rows],
            "cpu": [cores * 1000 for _, cores in rows],
        }
    )


def tick(replay: Replay, at_s: int) -> dict[str, Any]:
    ts = pl.from_epoch(pl.lit(BEGIN + at_s)).cast(pl.Datetime("ms")).dt.replace_time_zone("UTC")
    (row,) = replay.decisions.filter(pl.col("ts") == ts).to_dicts()
    return row


def workload_map(behavior: dict[str, Any] | None = None) -> dict[str, Any]:
    template = HPA["template"] | ({"behavior": behavior} if behavior else {})
    columns = {"cpu": {"of": "sum"}}
    lives = {"ready_after": "10s", "ran_before": "10m", "edge": "5m"}
    said = SAID | {"columns": columns, "hpas": {"template": template}, "lives": lives}
    return merged(WORKLOAD_MAP, said)


@pytest.mark.parametrize("behavior", [None, DOWN_AT_ONCE])
def test_a_reset_is_not_decided_and_named(tmp_path: Path, behavior: dict[str, Any] | None) -> None:
    data = totals((5, 2.9), (1, 0.98), (1, 0.98), (4, 2.9), rest=(5, 2.9))
    found = replayed(tmp_path, workload_map(behavior), data)
    row = tick(found, AT_S)
    assert (row["replicas"], row["desired"], row["applied"]) == (5, 5, 1)
    score = found.score
    (hpa,) = score.hpas.to_dicts()
    assert (hpa["foreign"], hpa["missed_down"], hpa["recorded_events"]) == (1, 0, 2)
    (summary,) = found.summary.to_dicts()
    assert summary["foreign_changes"] == 1
    assert summary["foreign_told"].startswith("5 -> 1 at ")
    assert summary["foreign_told"].endswith(": not by the rules, which kept 5")
    explained = hpabatch.open(tmp_path / "history").explain("cart", at=row["ts"]).text
    assert "0s after this sync: not by the rules, which kept 5\n" in explained


TARGETS = [("default", "default", name) for name in ("cart", "db", "web-frontend")]
WHOLE = "guessed the HPAs and requests of default/cart and 2 more, and all results rest on that"


def proposed(folder: Path) -> tuple[str, Path]:
    """Return a table and the map that --init proposes for it."""
    source, place = folder / "usage.csv", folder / "map.yaml"
    source.write_text(quantities().text)
    place.write_text(propose_map([str(source)]).text)
    return str(source), place


def told(place: Path, *, hpas: bool = True) -> tuple[str, ...]:
    return guesses_told(open_history(place), TARGETS, hpas=hpas)


def test_a_guess_is_told_until_the_map_states_it(tmp_path: Path) -> None:
    source, place = proposed(tmp_path)
    store = tmp_path / "h"
    import_table([source], place, store)
    (sentence,) = told(store)
    assert WHOLE in sentence
    assert "guessed the requests of" in told(store, hpas=False)[0]
    for left, expected in (("[requests]", "guessed the requests of"), ("[]", "")):
        text = place.read_text()
        place.write_text(text[: text.index("guessed: ")] + f"guessed: {left}\n")
        import_table([source], place, store, replace=True)
        assert [expected in sentence for sentence in told(store)] == [True] * bool(expected)


def test_replay_explain_and_quality_say_what_is_guessed(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, place = proposed(tmp_path)
    import_table([source], place, tmp_path / "h")
    commands = (
        ["replay", str(tmp_path / "h")],
        ["explain", str(tmp_path / "h"), "default/cart"],
        ["history", "quality", str(tmp_path / "h")],
    )
    for name, *arguments in commands:
        found = runner(name, capfdbinary, monkeypatch)(*arguments)
        assert found.code == 0, found.stderr
        assert found.stderr.count(" guessed the HPA") == 1, name


def test_a_table_of_custom_metrics_alone_is_replayed(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, place = tmp_path / "rps.csv", tmp_path / "map.yaml"
    rows = [f"2026-10-07T10:{m}:00Z,web,2,{m}\n" for m in range(10, 60)]
    source.write_text("time,service,replicas,rps\n" + "".join(rows))
    place.write_text(propose_map([str(source)]).text)
    import_table([str(source)], place, tmp_path / "h")
    found = runner("replay", capfdbinary, monkeypatch)(tmp_path / "h")
    assert found.code == 0, found.stderr
    assert found.stderr.count("pod_metrics: no usage was recorded, and no HPA") == 1
    assert "1 HPA, " in found.stdout


def test_what_the_table_has_is_no_guess(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(per_workload().text)
    text = propose_map([str(tmp_path / "a.csv")]).text
    assert text.endswith("guessed: [requests, hpas]\n")
    head = "time,service,replicas,cpu_m,cpu_request_m\n"
    rows = [f"2026-10-07T10:{m}:00Z,web,2,{m},250\n" for m in range(10, 60)]
    (tmp_path / "b.csv").write_text(head + "".join(rows))
    assert propose_map([str(tmp_path / "b.csv")]).text.endswith("guessed: [hpas]\n")


def test_a_wrong_guess_is_refused(tmp_path: Path) -> None:
    _, place = proposed(tmp_path)
    place.write_text(place.read_text().replace("[requests, hpas]", "[limits]"))
    with pytest.raises(UsageError, match=r"expected one of requests, hpas, got .limits."):
        read_map(place)
