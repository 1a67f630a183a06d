"""`hpabatch live` before a real API server while things go wrong."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.api_writes import Writer
from tests.real.cluster import missing, running_cluster
from tests.real.faulty_proxy import Exchange, FaultyProxy, every, metrics, status, watches
from tests.real.live_inside import Inside, outcomes
from tests.real.live_place import CPU, KCM_ARGS, PROGRAM, QUEUE, RPS, Live, Place
from tests.real.live_storm import (
    AFTER,
    ERROR_EVENT,
    FAULTS,
    LEVELS,
    MORE_FILES,
    MORE_THREADS,
    RIGHT,
    Case,
    is_said,
    weather,
)

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    controllers = "deployment,replicaset,horizontalpodautoscaling"
    flags = ["--stub", "--fake-kubelet", "--controllers", controllers]
    folder = tmp_path_factory.mktemp("faulty")
    with running_cluster(folder, flags=flags, more={"KCM_ARGS": KCM_ARGS}) as cluster:
        found = Place(Writer(cluster))
        for namespace in ("shop", "blog"):
            found.writer.namespace(namespace)
        steady = {f"{name}/web": 100 for name in ("targets", "many", "open", "closed")}
        levels = {**LEVELS, **steady, "targets/other": 100}
        found.levels(cpu_total_m=levels, custom={"shop/cart/rps": 30.0}, external={"queue": 40})
        found.app("shop", "web")
        found.app("shop", "old")
        found.app("shop", "cart", RPS)
        found.app("shop", "queue", QUEUE)
        found.app("blog", "web")
        found.until(RIGHT)
        yield found


@pytest.fixture(scope="module")
def storm(place: Place, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return weather(place, tmp_path_factory.mktemp("storm"))


NEW_OR_GONE = RIGHT.keys() ^ AFTER.keys()
every_fault = pytest.mark.parametrize("name", FAULTS)


@every_fault
def test_what_it_does_not_concern_goes_on(storm: dict[str, Case], name: str) -> None:
    """While a fault lasts, other HPAs are decided by what is known; those it concerns stay."""
    case = storm[name]
    known = RIGHT if case.fault.blind else AFTER
    stay = {k: v for k, v in RIGHT.items() if k in case.fault.fails}
    wanted = {k: v for k, v in known.items() if k not in case.fault.fails} | stay
    assert {k: case.during.get(k) for k in wanted} == wanted
    told = case.live.lines[case.begun : case.ended]
    failed = {f"{one['namespace']}/{one['hpa']}" for one in told if one["event"] == "fails"}
    assert failed - NEW_OR_GONE == case.fault.fails - NEW_OR_GONE
    works = {f"{one['namespace']}/{one['hpa']}" for one in told if one["event"] == "works"}
    assert works - NEW_OR_GONE == case.fault.fails - NEW_OR_GONE


@every_fault
def test_what_is_wrong_is_said_when_it_changes(storm: dict[str, Case], name: str) -> None:
    """Though there are two passes a second."""
    case = storm[name]
    told = case.live.lines[case.begun : case.ended]
    spoken = [(one["event"], one["about"], one["text"]) for one in told if "about" in one]
    problems = [one for one in spoken if one[0] == "problem"]
    assert len(problems) == len(set(problems))
    for about in {one[1] for one in spoken}:
        events = [one[0] for one in spoken if one[1] == about]
        assert events[0] == "problem"
        assert events[-1] == "fine"
        assert len(events) <= 10, spoken  # (a broken answer has several texts)
    for expected in case.fault.said:
        assert any(is_said(expected, about, text) for _, about, text in problems)
    assert not any(one["event"] == "note" for one in case.live.lines)


@every_fault
def test_afterwards_it_uses_no_more_than_before(storm: dict[str, Case], name: str) -> None:
    case = storm[name]
    files, threads, mib = case.more()
    assert files <= MORE_FILES
    assert threads <= MORE_THREADS
    assert mib <= 40


@every_fault
def test_it_ends_when_it_is_told_in_the_midst_of_it(storm: dict[str, Case], name: str) -> None:
    """And what was recorded until then is sound."""
    case = storm[name]
    code, seconds = case.exit
    assert code == 0
    assert seconds < 25  # of the 30 that a pod is given
    assert case.live.lines[-1]["event"] == "stop"
    assert (case.live.folder / "err").read_text() == ""
    assert case.findings == []


@pytest.fixture
def proxy(place: Place) -> Iterator[FaultyProxy]:
    found = FaultyProxy(place.writer.cluster)
    yield found
    found.close()


@pytest.fixture
def config(proxy: FaultyProxy, tmp_path: Path) -> Path:
    return proxy.kubeconfig(tmp_path / "kubeconfig")


def test_a_server_that_is_not_there_at_the_start(
    proxy: FaultyProxy, config: Path, tmp_path: Path
) -> None:
    """Nothing goes on without knowing the version: a sentence, and exit code 2."""
    with proxy.fault(lambda path: path == "/apis/autoscaling", _unwell):
        assert "unable to handle the request" in _refused(tmp_path / "group", config)
    proxy.down()
    assert "connection refused" in _refused(tmp_path / "down", config)


def _unwell(exchange: Exchange) -> None:
    exchange.reply(503, b"", "text/plain")


def _refused(folder: Path, config: Path) -> str:
    live = Live(folder, config)
    try:
        assert live.process.wait(60) == 2
    finally:
        live.kill()
    assert live.lines == []
    (line,) = (folder / "err").read_text().splitlines()
    assert "does not respond" in line
    return line


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("live", "--record"), "file"),
        (("live", "--record"), "flat"),
        (("record", "--out"), "folder"),
    ],
)
def test_a_record_onto_something_else_is_refused(
    command: tuple[str, str], what: str, place: Place, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    if what == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / ("scales.parquet" if what == "flat" else "thesis.odt")).write_text("mine")
    login = ["--kubeconfig", str(place.writer.folder / "kubeconfig")]
    done = subprocess.run(
        [PROGRAM, *command, out, *login], capture_output=True, text=True, timeout=120, check=False
    )
    words = {"file": "a file is where a folder is needed", "folder": "holds other files"}
    assert (done.returncode, done.stdout) == (2, "")
    assert words.get(what, "is a flat history") in done.stderr
    left = [out] if what == "file" else list(out.iterdir())
    assert [path.read_text() for path in left] == ["mine"]


def test_lists_that_never_come(proxy: FaultyProxy, config: Path, tmp_path: Path) -> None:
    """It waits, and can be ended."""
    with proxy.fault(_is_list, Exchange.hang):
        live = Live(tmp_path, config, "--record", str(tmp_path / "history"))
        try:
            live.until(lambda: any(_is_list(path) for _, path in proxy.asked))
            live.until(lambda: bool(live.lines))
            assert [one["event"] for one in live.lines] == ["start"]
            code, seconds = live.end()
            assert (code, (tmp_path / "err").read_text()) == (0, "")
            assert seconds < 25  # of the 30 that a pod is given
        finally:
            live.kill()


def _is_list(path: str) -> bool:
    return "limit=500" in path


def test_metrics_apis_that_come_later(place: Place, proxy: FaultyProxy, config: Path) -> None:
    place.writer.namespace("early")
    for name, metric in (("cpu", CPU), ("rps", RPS), ("queue", QUEUE)):
        place.app("early", name, metric)
    none = status(404, "NotFound", "the server could not find the requested resource")
    with (
        proxy.fault(metrics, lambda exchange: exchange.reply(404, none)),
        Inside(config, ["early"]) as inside,
    ):
        found = outcomes(inside.until(lambda result: len(result) == 3))
        assert "could not find the requested resource" in str(found["cpu"])
        assert "no custom metrics API (custom.metrics.k8s.io) registered" in str(found["rps"])
        assert "could not find the requested resource" in str(found["queue"])
        with proxy.fault(lambda path: "/metrics.k8s.io" in path, Exchange.hand_on):
            inside.until(lambda result: isinstance(outcomes(result)["cpu"], int))
            found = outcomes(inside.turn())
            assert all(isinstance(found[name], str) for name in ("rps", "queue"))
        wrong = {about for _, about, _ in inside.told("problem")}
        assert wrong == {
            "cluster metrics.k8s.io in early",
            "cluster custom.metrics.k8s.io rps in early",
            "cluster external.metrics.k8s.io queue in early",
        }
        with proxy.fault(every, Exchange.hand_on):
            inside.until(lambda result: not any(result.error))
            inside.until(lambda result: {about for _, about, _ in inside.told("fine")} >= wrong)


def test_a_target_that_is_deleted(place: Place, config: Path) -> None:
    place.writer.namespace("targets")
    place.app("targets", "web")
    place.app("targets", "other")
    with Inside(config, ["targets"]) as inside:
        both = {"web", "other"}
        right = outcomes(
            inside.until(lambda result: {n for n, v in outcomes(result).items() if v == 2} >= both)
        )
        place.remove_deployment("targets", "web")
        missed = 'deployments/scale.apps "web" not found'
        found = inside.until(lambda result: missed in str(outcomes(result)["web"]))
        assert outcomes(found)["other"] == right["other"]
        place.deployment("targets", "web")
        assert outcomes(inside.until(lambda result: not any(result.error))) == right
        assert inside.told("problem", "fine") == []


COPIES = 600


def _with_strange_ones(body: bytes) -> bytes:
    """Return a list of HPAs with copies of the first, three strange ones among them."""
    found = json.loads(body)
    found["futureField"] = {"items": [1, None]}
    for item in found["items"]:
        item["spec"]["futureField"] = [{"a": None}]
        item["status"]["conditions"] = [{"type": "New", "observedGeneration": 3, "more": {}}]
        item["metadata"]["managedFields"] = [{"fieldsV1": {"f:spec": {}}}] * 3
    for number in range(COPIES):
        item = json.loads(json.dumps(found["items"][0]))
        item["metadata"] |= {"name": f"copy-{number:04}", "uid": f"u-{number}"}
        if number == 500:
            item["spec"]["maxReplicas"] = "many"
        if number == 501:
            item["spec"] |= {"minReplicas": 5, "maxReplicas": 1}
        if number == 502:
            item["metadata"]["generation"] = {}
        if number == 503:
            item["metadata"]["annotations"] = {"huge": "x" * 2_000_000}
        found["items"].append(item)
    return json.dumps(found).encode()


def _is_list_of_hpas(path: str) -> bool:
    return "horizontalpodautoscalers" in path and not watches(path)


def test_strange_and_huge_objects_among_hundreds(
    place: Place, proxy: FaultyProxy, config: Path
) -> None:
    place.writer.namespace("many")
    place.app("many", "web")
    place.big_pod("many", "big", 1_000_000)
    place.big_hpa("many", "wide", 200_000)
    with (
        proxy.fault(_is_list_of_hpas, lambda exchange: exchange.hand_on(_with_strange_ones)),
        Inside(config, ["many"]) as inside,
    ):
        result = inside.until(lambda result: outcomes(result).get("web") == 2)
        found = outcomes(result)
        assert len(found) == COPIES - 3 + 2
        assert {value for name, value in found.items() if name != "wide"} == {2}
        assert "deployments/scale.apps" in str(found["wide"])
        for _ in range(3):
            inside.turn()
        told = inside.told("problem")
        assert [about for _, about, _ in told] == [
            "hpa many/copy-0500", "hpa many/copy-0501",
            "cluster horizontalpodautoscalers.autoscaling many/copy-0502",
        ]  # fmt: skip
        assert "spec.maxReplicas" in told[0][2]
        assert "minReplicas" in told[1][2]
        assert "generation" in told[2][2]
        with (
            proxy.fault(_is_list_of_hpas, Exchange.hand_on),
            proxy.fault(watches, lambda exchange: exchange.stream(ERROR_EVENT)),
        ):
            proxy.cut(watches)
            inside.until(lambda result: set(result.names) == {"web", "wide"})
            inside.turn()
        fine = {about for _, about, _ in inside.told("fine")}
        assert {about for _, about, _ in told} <= fine


def test_where_one_may_not_look(place: Place, proxy: FaultyProxy, tmp_path: Path) -> None:
    """A service account's roles in two namespaces, the second of which comes later."""
    for namespace in ("open", "closed"):
        place.writer.namespace(namespace)
        place.app(namespace, "web")
    place.allow("scaler", "open")
    config = proxy.kubeconfig(tmp_path / "kubeconfig", "scaler-token")
    with Inside(config, ["open", "closed"]) as inside:
        result = inside.until(lambda result: outcomes(result).get("web") == 2)
        assert list(result.namespaces) == ["open"]
        refused = 'pods is forbidden: User "scaler" cannot list resource "pods"'
        problems = {about: text for _, about, text in inside.told("problem")}
        assert problems["cluster pods in closed"].startswith(refused)
        assert all(" in closed" in about for about in problems)
        # A line tells, too, when the cluster's own controller has come to the same.
        inside.until(
            lambda result: list(result.theirs_desired) == [2] and outcomes(result).get("web") == 2
        )
        count = len(inside.lines)
        for _ in range(20):
            inside.turn()
        assert len(inside.lines) == count
        place.allow("scaler", "closed")
        result = inside.until(lambda result: len(result) == 2 and not any(result.error))
        inside.until(
            lambda result: {about for _, about, _ in inside.told("fine")} >= problems.keys()
        )
