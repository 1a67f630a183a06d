"""`hpabatch gate`: whole runs on two sets of manifests, with a history and without."""

from __future__ import annotations

import json
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import pytest

from hpabatch.engine.gate.limits import SIMULATED, parse_limit
from hpabatch.engine.gate.run import CHANGED, Key, _judged
from hpabatch.errors import (
    EXIT_EXCEEDED,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_UNREADABLE,
    ManifestError,
    UsageError,
)
from hpabatch.report.gate import MARKER, MOST_BYTES
from tests.cli.commands import invoke
from tests.cli.histories import MANIFESTS
from tests.cli.hostile import NASTY, manifest, raw_characters
from tests.engine.swept import cut

run = partial(invoke, "gate")
PLANT = "- hpa: shop/checkout\n  signals:\n    container/app/cpu: {base: 10m, ceiling: 400m}\n"
TARGET = "averageUtilization: 65"


def write(path: Path, *objects: dict[str, Any]) -> Path:
    path.write_text("---\n".join(json.dumps(value) + "\n" for value in objects))
    return path


WEB = manifest("web", "shop", "web")
REFUSED = manifest("web", "shop", "web", maxReplicas=0)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write(tmp_path / "base.yaml", WEB, manifest("old", "shop", "old"))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 14 hours of one HPA, whose workload is known, with prices beside."""
    folder = tmp_path_factory.mktemp("gate")
    (folder / "plant.yaml").write_text(PLANT)
    (folder / "prices.yaml").write_text("currency: EUR\ncore_hour: 1\n")
    return cut(folder / "history", "shop/checkout", hours=14, since=6)


@pytest.fixture(scope="module")
def today(history: Path) -> Path:
    (own,) = [
        text for text in (MANIFESTS / "shop.yaml").read_text().split("\n---\n")
        if "name: checkout\n" in text and TARGET in text
    ]  # fmt: skip
    path = history.parent / "base.yaml"
    path.write_text(own)
    return path


def simulated(history: Path, today: Path, head: Path, *more: str | Path) -> Any:
    folder = history.parent
    files = ("--plant", folder / "plant.yaml", "--prices", folder / "prices.yaml")
    return run("--base", today, "--head", head, "--history", history, *files, *more)


def test_nothing_that_changes_passes(base: Path) -> None:
    done = run("--base", base, "--head", base, "--fail-on", "findings>+0")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (
        EXIT_OK, "gate passes: 0 HPAs of 2 differ",
    )  # fmt: skip


@pytest.mark.compiled
def test_worse_and_better(history: Path, today: Path, tmp_path: Path) -> None:
    limits = ("--fail-on", "replica_hours>+3%", "--fail-on", "total:cost>+100")
    worse, better = tmp_path / "worse.yaml", tmp_path / "better.yaml"
    worse.write_text(today.read_text().replace(TARGET, "averageUtilization: 62"))
    better.write_text(today.read_text().replace(TARGET, "averageUtilization: 69"))
    done = simulated(history, today, worse, *limits, "-o", "json")
    found = json.loads(done.stdout)
    (row,), (exceeded,) = found["hpas"], found["exceeded"]
    assert done.exit_code == EXIT_EXCEEDED
    assert row["settings"].endswith("averageUtilization 65 -> 62")
    assert row["exceeded"] == exceeded["limit"] == "replica_hours>+3%"
    # The price of the cores that the simulated pods of each side request, not of recorded ones.
    assert row["head_cost"] == pytest.approx(row["head_core_hours"])
    assert row["base_cost"] == pytest.approx(row["base_core_hours"])
    assert row["head_cost"] > row["base_cost"]
    done = simulated(history, today, better, *limits, "-o", "json")
    (row,) = json.loads(done.stdout)["hpas"]
    assert done.exit_code == EXIT_OK
    assert row["head_replica_hours"] < row["base_replica_hours"]
    done = simulated(history, today, better, "--fail-on", "total:cost>+1%", "-o", "markdown")
    assert "| 65 -> 69" in done.stdout.replace("averageUtilization ", "| ")


@pytest.mark.compiled
def test_what_is_not_known_fails_unless_allowed(history: Path, today: Path, tmp_path: Path) -> None:
    head = tmp_path / "head.yaml"
    document = today.read_text().replace(TARGET, "averageUtilization: 62")
    head.write_text(f"{document}\n---\n{json.dumps(manifest('new', 'shop', 'nowhere'))}")
    both = ("--base", today, "--head", head, "--history", history, "--fail-on", "rescales>+9")
    done = run(*both, "-o", "json")
    told = {row["hpa"]: row["reason"] for row in json.loads(done.stdout)["unknown"]}
    assert done.exit_code == EXIT_EXCEEDED
    assert told["new"] == "base has no such HPA to compare it with"
    assert told["checkout"].startswith("plant not identified")
    allowed = run(*both, "--allow-unknown", "-o", "sarif")
    results = json.loads(allowed.stdout)["runs"][0]["results"]
    assert allowed.exit_code == EXIT_OK
    assert {r["ruleId"] for r in results if "suppressions" in r} == {"gate_unknown"}


def test_new_and_removed_hpas_and_findings(base: Path, tmp_path: Path) -> None:
    wrong = manifest("web", "shop", "web", minReplicas=10)
    head = write(tmp_path / "head.yaml", wrong, manifest("new", "shop", "new"))
    done = run("--base", base, "--head", head, "--fail-on", "findings_medium>+0", "-o", "json")
    found = json.loads(done.stdout)
    assert done.exit_code == EXIT_EXCEEDED
    assert {(row["hpa"], row["change"]) for row in found["hpas"]} == {
        ("web", "changed"), ("new", "new"), ("old", "removed"),
    }  # fmt: skip
    assert [row["finding"] for row in found["findings"]] == ["min_is_max"]
    assert not found["unknown"]  # (nobody asked what it does)
    back = run("--base", head, "--head", base, "--fail-on", "findings_medium>+0")
    assert (back.exit_code, "1 finding fixed" in back.stdout) == (EXIT_OK, True)


def test_a_rendered_stream_and_its_workloads(base: Path) -> None:
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app"}]},
            },
        },
    }
    stream = "---\n".join(json.dumps(value) + "\n" for value in (workload, WEB))
    done = invoke("gate", "--base", base, "--head", "-", "-o", "json", stdin=stream)
    assert [row["finding"] for row in json.loads(done.stdout)["findings"]] == ["missing_request"]


def test_broken_manifests(base: Path, tmp_path: Path) -> None:
    head = write(tmp_path / "head.yaml", manifest("web", "shop", "web", minReplicas=10))
    with head.open("a") as file:
        file.write("---\na: [\n")
    done = run("--base", base, "--head", head, "--fail-on", "findings>0")
    assert done.exit_code == EXIT_UNREADABLE
    assert f"head: {head}:" in done.stderr
    assert "gate fails" in done.stdout
    with pytest.raises(ManifestError, match="nowhere: expected an HPA"):
        run("--base", tmp_path / "nowhere", "--head", base)


@pytest.mark.parametrize(
    ("text", "code"),
    [("a: [", EXIT_UNREADABLE), ("", EXIT_UNREADABLE), (json.dumps(REFUSED), EXIT_REFUSED)],
)
def test_what_is_not_read_of_head_does_not_pass(base: Path, text: str, code: int) -> None:
    words = ("gate", "--base", base, "--head", "-", "-o")
    done = invoke(*words, "json", stdin=text)
    found = json.loads(done.stdout)
    assert (done.exit_code, found["passes"], found["hpas"]) == (code, False, [])
    (row,) = found["unread"]
    assert (row["source"], row["line"]) == ("stdin", 1)
    first, *others = invoke(*words, "table", stdin=text).stdout.splitlines()
    assert first == "gate fails: 0 HPAs of 2 differ, 1 document of head not read or refused"
    assert any(row["reason"][:20] in line for line in others)
    sarif = json.loads(invoke(*words, "sarif", stdin=text).stdout)
    assert [r["ruleId"] for r in sarif["runs"][0]["results"]] == ["gate_unread"]


def test_a_side_without_an_hpa_is_refused(base: Path, tmp_path: Path) -> None:
    other, nowhere, empty = tmp_path / "other.yaml", tmp_path / "nowhere", tmp_path / "empty"
    write(other, {"kind": "ConfigMap"})
    empty.mkdir()
    assert run("--base", base, "--head", nowhere, "--head", other).exit_code == EXIT_UNREADABLE
    for words in (("--base", other, "--head", base), ("--base", base, "--head", other)):
        with pytest.raises(ManifestError, match="expected an HPA, got no valid one"):
            run(*words)
    for place in (other, nowhere, empty):
        for words in (("--base", place, "--head", base), ("--base", base, "--head", place)):
            assert run(*words, "--allow-empty").exit_code == EXIT_OK
    other.write_text("a: [")
    assert run("--base", base, "--head", other, "--allow-empty").exit_code == EXIT_UNREADABLE


def test_an_hpa_that_is_given_twice_is_not_known(base: Path, tmp_path: Path) -> None:
    more = manifest("web", "shop", "web", maxReplicas=50)
    head = write(tmp_path / "head.yaml", WEB, more, manifest("old", "shop", "old"))
    done = run("--base", base, "--head", head, "-o", "json")
    found = json.loads(done.stdout)
    assert done.exit_code == EXIT_EXCEEDED
    assert [(row["hpa"], row["settings"]) for row in found["hpas"]] == [
        ("web", "maxReplicas 10 -> 50")  # (the last one is applied)
    ]
    assert "given twice" in found["hpas"][0]["unknown"]
    assert run("--base", base, "--head", head, "--allow-unknown").exit_code == EXIT_OK
    assert run("--base", head, "--head", head).exit_code == EXIT_OK
    write(head, WEB, WEB, manifest("old", "shop", "old"))
    assert run("--base", base, "--head", head).exit_code == EXIT_OK


def test_an_ignore_that_is_added_is_told(tmp_path: Path) -> None:
    wrong = manifest("web", "shop", "web", minReplicas=10)
    plain = write(tmp_path / "plain.yaml", wrong)
    wrong["metadata"]["annotations"] = {"hpabatch/ignore": "min_is_max until 2999-01-31: quota"}
    head = write(tmp_path / "head.yaml", wrong)
    for base in (plain, write(tmp_path / "new.yaml", WEB)):
        done = run("--base", base, "--head", head)
        assert "1 finding newly ignored" in done.stdout.splitlines()[0]
        assert "(ignored until 2999-01-31: quota)" in done.stdout
        sarif = json.loads(run("--base", base, "--head", head, "-o", "sarif").stdout)
        assert ["suppressions" in r for r in sarif["runs"][0]["results"]] == [True]
    assert "ignored" not in run("--base", head, "--head", head).stdout


def test_generated_names_are_names(tmp_path: Path) -> None:
    both = [manifest(name, "shop", name, minReplicas=10) for name in ("web-", "api-")]
    for one in both:
        one["metadata"]["generateName"] = one["metadata"].pop("name")
    base, head = write(tmp_path / "base.yaml", *both), tmp_path / "head.yaml"
    both[0]["spec"]["minReplicas"] = 1
    done = run("--base", base, "--head", write(head, *both), "-o", "json")
    (row,) = json.loads(done.stdout)["hpas"]
    assert (row["hpa"], row["base_findings"], row["head_findings"]) == ("web-*", 1, 0)


def test_a_comment_replaces_no_input(history: Path, today: Path, tmp_path: Path) -> None:
    both = ("--base", today, "--head", today)
    for option in ("--base", "--head", "--plant", "--prices"):
        file = tmp_path / "input"
        file.write_text("")
        words = (*both, "--history", history, option, file, "--markdown", file)
        with pytest.raises(UsageError, match=f"--markdown {file} is an input of {option}"):
            run(*words)
    with pytest.raises(UsageError, match="is in the input table pods"):
        run(*both, "--history", history, "--markdown", history / "pods.parquet")


def rows(**measures: float | None) -> list[tuple[Key, dict[str, Any]]]:
    """Return the rows of an HPA of two clusters, with the measures of head."""
    found: dict[str, Any] = {f"head_{name}": value for name, value in measures.items()}
    found |= {f"base_{name}": 0.0 for name in measures} | {"change": CHANGED, "currency": None}
    return [((cluster, "shop", "web"), found) for cluster in ("a", "b")]


@pytest.mark.parametrize("order", [1, -1])
def test_a_measure_that_is_not_known_hides_no_other(order: int) -> None:
    limits = list(map(parse_limit, ("saturated_minutes>1", "cost>1", "rescales>1")[::order]))
    unknown: dict[Key, str] = {}
    own = rows(saturated_minutes=None, cost=nan, rescales=5)
    found = [(e.key, e.limit.measure) for e in _judged(limits, own, unknown)]
    assert found == [(key, "rescales") for key, _ in own]
    whys = {"saturated_minutes is not known", "cost is not known"}
    assert [{*why.split("; ")} for why in unknown.values()] == [whys, whys]


def test_findings_of_several_clusters_count_once() -> None:
    limits = [parse_limit("findings>0"), parse_limit("total:findings>+1")]
    (one,) = _judged(limits, rows(findings=1), {})
    assert one.key == ("", "shop", "web")


@pytest.mark.parametrize("measure", SIMULATED)
def test_every_measure_can_be_limited(measure: str) -> None:
    assert parse_limit(f"{measure}>+1").measure == measure


def test_the_comment_is_text_and_has_room(tmp_path: Path) -> None:
    many = [manifest(f"web-{k}", "shop", f"web{NASTY}{k}") for k in range(120)]
    base, comment = write(tmp_path / "base.yaml", *many), tmp_path / "comment.md"
    for one in many:
        one["spec"]["scaleTargetRef"]["name"] += "|<b>[x](y)" + "long" * 300
    head = write(tmp_path / "head.yaml", *many)
    done = run("--base", base, "--head", head, "--markdown", comment, "-o", "junit")
    text = comment.read_text()
    assert done.exit_code == EXIT_OK
    assert text.startswith(f"{MARKER}\n\n**gate passes: 120 HPAs of 120 differ**")
    assert len(text.encode()) < MOST_BYTES
    assert " more: --output csv shows all" in text
    assert not raw_characters(text.replace("…", ""))
    assert "<b>" not in text
    assert "](y)" not in text.replace("\\]", "")


@pytest.mark.parametrize(
    ("limit", "base", "head", "exceeded"),
    [
        ("at_max_minutes>1", 0.0, nan, None),
        ("at_max_minutes>+1", nan, 4.0, None),
        ("saturated_minutes>+10", 5.0, 15.0, False),
        ("saturated_minutes>=+10", 5.0, 15.0, True),
        ("cost>+5%", 100.0, 106.0, True),
        ("cost>+5%", 0.0, 1.0, True),
        ("cost>+5%", 0.0, 0.0, False),
        ("pod_hours<-50%", 10.0, 4.0, True),
        ("total:rescales > 3", None, 4.0, True),
        ("at_max_minutes>+1", None, 4.0, None),
        ("findings>0", 0, 0, False),
    ],
)
def test_limits(limit: str, base: float | None, head: float, exceeded: bool | None) -> None:
    assert parse_limit(limit).judge(base, head) is exceeded


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--fail-on", "saturated>+1"), "did you mean saturated_minutes"),
        (("--fail-on", "cost"), "expected MEASURE>NUMBER"),
        (("--fail-on", "cost>5%"), "write its sign"),
        (("--fail-on", "total:regret_pct>+1"), "makes no sum"),
        (("--fail-on", "cost>+1"), "give --history"),
        (("--prices", "p.yaml"), "give --history"),
        (("--history", "h", "--fail-on", "total:cost>+1%"), "give --prices"),
    ],
)
def test_what_makes_no_sense_is_refused(base: Path, words: tuple[str, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        run("--base", base, "--head", base, *words)
