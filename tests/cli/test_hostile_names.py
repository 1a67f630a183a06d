"""Every command in every form over names that attack who reads them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from _pytest.mark import ParameterSet

from hpabatch.cli.app import app
from tests.cli.commands import Done, Run, runner
from tests.cli.histories import small
from tests.cli.hostile import (
    NASTY,
    PLAIN,
    Rename,
    history,
    manifest,
    manifests,
    raw_characters,
    unescaped,
)
from tests.cluster.fake_api import Got, Wire, kubeconfig, serving, status
from tests.importers.tables import BEGIN_S, POD_MAP
from tests.report.pictured import came_to, maker

NOT_UTF_8 = "expected arguments and names of files in UTF-8"
Commands = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
SUFFIXES = {"plain": PLAIN, "nasty": NASTY}


FILES = (
    {"steps": [{"{}": "{}"}]},
    {"steps": [{"load": "{}", "where": "{}"}]},
    {"signals": {"external/{}": {"kind": "{}"}}},
    {"workloads": {"{}": {"{}": 1}}},
    {"currency": "{}", "core_hour": "{}"},
    {"core_hour": 1, "clusters": {"{}": {"core_hour": "{}"}}},
    {"kind": "ResourceQuota", "metadata": {"name": "{}", "namespace": "{}"},
     "spec": {"hard": {"{}": "{}", "requests.cpu": "{}"}}},
    {"policies{}": {"scaleUp": [{"type": "{}", "value": 1}]}},
    {"columns": {"time": "{}", "pod": "{}"}, "{}": "{}"},
    {"current-context": "{}", "contexts": [{"name": "{}", "context": {"cluster": "{}"}}]},
    {"current-context": "{}", "contexts": [{"name": "{}", "context": {"cluster": "c"}}],
     "clusters": [{"name": "c", "cluster": {"server": "{}"}}]},
)  # fmt: skip
"""Files of several kinds, `{}` the names' end."""


def test_no_command_takes_an_argument_that_is_not_utf_8(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner("history", capfdbinary, monkeypatch)
    run("--help")  # (imports all commands)
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        run = runner(name, capfdbinary, monkeypatch)
        for words in [[inner] for inner in getattr(command, "commands", ())] or [[]]:
            done = run(*words, "hist\udcff\x1b[31mory", "--out", "out")
            assert (done.code, done.data) == (2, b""), (name, words)
            assert done.stderr == f"error: {NOT_UTF_8}, got hist\\udcff\\x1b[31mory; rename that\n"


def test_no_folder_has_a_name_that_is_not_utf_8(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "not\udcffutf-8"
    place.mkdir()
    small(tmp_path / "history").rename(place / "history")
    small(tmp_path / "other")
    run = runner("replay", capfdbinary, monkeypatch)
    monkeypatch.chdir(place)
    for name in ("history", tmp_path / "other"):
        done = run(name, "--out", "out.parquet")
        assert (done.code, done.data) == (2, b"")
        assert done.stderr.startswith(f"error: {NOT_UTF_8}, got {tmp_path}/not\\udcffutf-8")


class Places:
    """The same files twice: with plain names and with hostile ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for kind, suffix in SUFFIXES.items():
            place = folder / kind
            place.mkdir()
            refused = "_!" * 60 if kind == "plain" else suffix

            def rename(name: str, suffix: str = suffix) -> str:
                return name + suffix

            def rename_all(name: str, suffix: str = refused) -> str:
                return name + suffix

            history(place / "history", rename)
            history(place / "refused", rename_all, strict=True)
            manifests(place / rename("hpas"), rename)
            manifests(place / "refused.yaml", rename_all, strict=True)
            self.write_files(place, rename)
            sweep = maker()
            for hpa in ("api", "web"):
                came = {k: came_to(s) for k, s in enumerate(sweep.settings)}
                sweep.add(rename(hpa), came, cluster=rename("c"), unit=rename(f"unit {hpa}"))
            sweep.write(place / "sweep")

    def write_files(self, place: Path, rename: Rename) -> None:
        """Write what people write, of no kind in particular, so that messages quote it."""
        (place / rename("mapping")).write_text(json.dumps({rename("key"): rename("value")}))
        (place / rename("text")).write_text(json.dumps(rename("value")))
        (place / rename("broken")).write_text(rename("a: [") + rename("b: {"))
        for number, kind in enumerate(FILES):
            values = json.loads(json.dumps(kind).replace("{}", json.dumps(rename(""))[1:-1]))
            (place / rename(f"file{number}")).write_text(json.dumps(values))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Places(tmp_path_factory.mktemp("names"))


def call(
    places: Places,
    kind: str,
    words: tuple[str, ...],
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Done:
    """Run a command in the folder of that kind of names; `{}` in words is the names' end."""
    monkeypatch.chdir(places.folder / kind)
    out = tmp_path / kind
    out.mkdir(exist_ok=True)
    command, *others = (
        word.replace("OUT", str(out)).replace("{}", SUFFIXES[kind]) for word in words
    )
    run: Run = runner(command, capsysbinary, monkeypatch)
    return run(*others)


def hold_alike(
    places: Places,
    words: tuple[str, ...],
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> tuple[Done, Done]:
    """Run a command over both kinds of names: it says as many lines, and nothing raw."""
    plain, nasty = (
        call(places, kind, words, capsysbinary, monkeypatch, tmp_path) for kind in SUFFIXES
    )
    assert nasty.code == plain.code, nasty.stderr
    assert raw_characters(nasty.stderr) == []
    assert shape(nasty.stderr) == shape(plain.stderr), nasty.stderr
    for line in nasty.stderr.splitlines():
        if re.match(r"(skipped|no plant|left out \(\w+\)): \S*=", line):  # an attacking name
            backslashes = re.search(r"\\+(?=n\|)", line)  # its own one, doubled
            assert backslashes is None or backslashes[0] == r"\\", line
    return plain, nasty


def shape(text: str) -> int:
    """Count lines; what is told once of kernels does not count."""
    return sum(not line.startswith("compiling") for line in text.split("\n"))


COMMANDS: Commands = {
    "replay": (("replay", "history", "--out", "OUT/r.parquet"), ("table",)),
    "replay --score": (
        ("replay", "history", "--out", "OUT/s.parquet", "--score"),
        ("table",),
    ),
    "replay --hpas": (
        ("replay", "history", "--out", "OUT/t.parquet", "--hpas", "hpas{}"),
        ("table",),
    ),
    "compare": (
        ("compare", "history", "--k8s", "1.26..1.38", "--where", "hpa = 'checkout'"),
        ("table",),
    ),
    "explain": (("explain", "history", "demo{}/shop/checkout"), ("table",)),
    "findings": (("findings", "history"), ("table",)),
    "get": (("get", "history"), ("table", "json", "csv", "yaml")),
    "describe": (("describe", "history", "demo{}/shop/checkout"), ("table", "json")),
    "history info": (("history", "info", "history"), ("table",)),
    "history check": (("history", "check", "history"), ("table",)),
    "history quality": (("history", "quality", "history"), ("table",)),
    "validate": (("validate", "hpas{}"), ("table",)),
    "validate refused": (("validate", "refused.yaml"), ("table",)),
    "analyze": (("analyze", "hpas{}"), ("table",)),
    "lint": (("lint", "hpas{}"), ("table",)),
    "gate": (("gate", "--base", "refused.yaml", "--head", "hpas{}", "--allow-empty"), ("table",)),
    "gate of refused": (("gate", "--base", "hpas{}", "--head", "refused.yaml"), ("table",)),
    "recommend": (
        ("recommend", "sweep", "--slo", "saturated_minutes<40/week", "--patches", "OUT/patches"),
        ("table",),
    ),
}
"""Forms of results share their writers (tests/report/test_results.py)."""
COMPILED: Commands = {
    "fidelity": (("fidelity", "history"), ("table",)),
    "fit": (("fit", "history"), ("table",)),
    "plan": (("plan", "history", "--for", "20m"), ("table",)),
    "simulate": (("simulate", "history", "--for", "20m"), ("table",)),
    "sweep": (
        ("sweep", "history", "--grid", "target=60,80", "--for", "30m", "--no-fidelity",
         "--out", "OUT/sweep"),
        ("table",),
    ),
}  # fmt: skip


REFUSED = {
    f"{name} of refused": (
        tuple("refused" if word == "history" else word for word in words),
        forms[:1],
    )
    for name, (words, forms) in {**COMMANDS, **COMPILED}.items()
    if words[1] == "history" and words[0] != "history" and " --" not in name
}


def cases(commands: Commands, *marks: pytest.MarkDecorator) -> list[ParameterSet]:
    return [
        pytest.param((*words, "-o", form), form, id=f"{name} -o {form}", marks=marks)
        for name, (words, forms) in commands.items()
        for form in forms
    ]


@pytest.mark.parametrize(
    ("words", "form"),
    [*cases(COMMANDS), *cases(REFUSED), *cases(COMPILED, pytest.mark.compiled)],
)
def test_names_stay_names(
    words: tuple[str, ...],
    form: str,
    places: Places,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    plain, nasty = hold_alike(places, words, capsysbinary, monkeypatch, tmp_path)
    assert plain.code != 2 or "refused" in words, plain.stderr  # (two refusals would be alike)
    assert raw_characters(nasty.stdout) == []
    assert shape(nasty.stdout) == shape(plain.stdout)
    if form == "csv" and nasty.data:
        rows = list(csv.reader(io.StringIO(nasty.stdout, newline="")))
        assert len(rows) == len(nasty.stdout.splitlines())
        assert [len(row) for row in rows] == [len(r) for r in csv.reader(plain.lines)]
        names = {unescaped(cell) for row in rows for cell in row}
        named = {"cluster", "name", "target"} & set(rows[0])
        assert not named or len(rows) == 1 or any(name.endswith(NASTY) for name in names)
    if form == "json" and nasty.stdout:
        found = json.loads(nasty.stdout)
        assert len(found) == len(json.loads(plain.stdout))
        assert json.dumps(NASTY)[1:-1] in json.dumps(found)


ANY = ("mapping", "text", "broken", "absent")
OWN: dict[str, tuple[int, ...]] = {
    "simulate --scenario": (0, 1),
    "simulate --plant": (2, 3),
    "simulate --prices": (4, 5),
    "plan --quota": (6,),
    "sweep --policy-sets": (7,),
    "import table": (8,),
    "live": (9, 10),
}
"""Which of FILES are of the kind that a command reads."""
READERS: dict[str, tuple[str, ...]] = {
    "simulate --scenario": ("simulate", "history", "--scenario", "FILE"),
    "simulate --plant": ("simulate", "history", "--plant", "FILE"),
    "simulate --prices": ("simulate", "history", "--prices", "FILE"),
    "simulate --hpas": ("simulate", "history", "--hpas", "FILE"),
    "plan --quota": ("plan", "history", "--quota", "FILE"),
    "sweep --policy-sets": (
        "sweep", "history", "--out", "OUT/s", "--grid", "policies=x", "--policy-sets", "FILE",
    ),
    "sweep --group": (
        "sweep", "history", "--out", "OUT/s", "--grid", "target=60", "--group", "FILE",
    ),
    "sweep --grid": ("sweep", "history", "--out", "OUT/s", "--grid", "FILE"),
    "import table": ("import", "table", "FILE", "--map", "FILE", "--out", "OUT/h"),
    "import prometheus": (
        "import", "prometheus", "--url", "http://127.0.0.1:9", "--start", "2026-10-01", "--end",
        "2026-10-02", "--mapping", "FILE", "--out", "OUT/h",
    ),
    "live": ("live", "--once", "--kubeconfig", "FILE"),
    "record": ("record", "--out", "OUT/h", "--kubeconfig", "FILE", "--context", "x{}"),
    "validate": ("validate", "FILE"),
    "history info": ("history", "info", "FILE"),
    "history check": ("history", "check", "FILE"),
    "recommend": (
        "recommend", "sweep", "--slo", "rescales<1/week", "--patches", "OUT/p", "--hpas", "FILE",
    ),
    "plot": ("plot", "FILE"),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_messages_about_files_are_lines(
    reader: str,
    places: Places,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name in (*ANY, *(f"file{k}" for k in OWN.get(reader, ()))):
        words = tuple("".join((name, "{}")) if w == "FILE" else w for w in READERS[reader])
        plain, _ = hold_alike(places, words, capsysbinary, monkeypatch, tmp_path)
        # (what is wrong with the words alone would be alike, and about no file)
        assert plain.code == 0 or name + PLAIN in plain.stderr, plain.stderr


ARGUMENTS: dict[str, tuple[str, ...]] = {
    "simulate --where": ("simulate", "history", "--where", "{}"),
    "replay --where": ("replay", "history", "--out", "OUT/x.parquet", "--where", "x{} = 1"),
    "replay --k8s": ("replay", "history", "--out", "OUT/x.parquet", "--k8s", "1{}"),
    "replay --feature-gates": (
        "replay", "history", "--out", "OUT/x.parquet", "--feature-gates", "A{}=true",
    ),
    "replay --out": ("replay", "history", "--out", "OUT/x{}/y.parquet"),
    "replay elsewhere": ("replay", "nowhere{}", "--out", "OUT/x.parquet"),
    "explain": ("explain", "history", "x{}"),
    "explain --at": ("explain", "history", "demo{}/shop/checkout", "--at", "x{}"),
    "get": ("get", "history", "x{}", "-n", "y{}"),
    "sweep --grid field": ("sweep", "history", "--out", "OUT/s", "--grid", "x{}=1"),
    "sweep --grid value": ("sweep", "history", "--out", "OUT/s", "--grid", "target=x{}"),
    "sweep --group": (
        "sweep", "history", "--out", "OUT/s", "--grid", "target=60", "--group", "label:x{}",
    ),
    "recommend --slo": ("recommend", "sweep", "--slo", "x{}<1/week"),
    "recommend --minimize": (
        "recommend", "sweep", "--slo", "rescales<1/week", "--minimize", "x{}",
    ),
    "recommend --bound": (
        "recommend", "sweep", "--slo", "rescales<1/week", "--bound", "x{}=1",
    ),
    "plot --unit": ("plot", "sweep", "--out", "OUT/p", "--unit", "x{}"),
    "plot HPA": ("plot", "sweep", "--out", "OUT/p", "shop/x{}"),
    "plot --heatmap": ("plot", "sweep", "--out", "OUT/p", "--heatmap", "x{},y{}"),
    "plot --setting": ("plot", "sweep", "--out", "OUT/p", "--setting", "x{}"),
    "analyze --hpa": ("analyze", "hpas{}", "--hpa", "x{}"),
    "analyze --request": ("analyze", "hpas{}", "--request", "x{}=y{}"),
    "migrate": ("history", "migrate", "history", "OUT/new{}"),
    "compact": ("history", "compact", "nowhere{}"),
    "live --context": ("live", "--once", "--context", "x{}"),
    "live --namespace": ("live", "--once", "--namespace", "x{}"),
    "live --every": ("live", "--every", "x{}"),
    "import prometheus --url": (
        "import", "prometheus", "--url", "x{}", "--start", "x{}", "--out", "OUT/h",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ARGUMENTS)
def test_messages_about_arguments_are_lines(
    case: str,
    places: Places,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    hold_alike(places, ARGUMENTS[case], capsysbinary, monkeypatch, tmp_path)


def test_pictures(
    places: Places,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    words = ("plot", "sweep", "--out", "OUT/p", "--front", "--heatmap", "target,scaleDown.window",
             "--slo", "rescales<1/week")  # fmt: skip
    nasty = call(places, "nasty", words, capsysbinary, monkeypatch, tmp_path)
    assert raw_characters(nasty.stdout + nasty.stderr) == []
    paths = [Path(line) for line in nasty.lines]
    assert len(paths) == 4
    for path in paths:
        text = path.read_text()
        ElementTree.fromstring(text)
        assert raw_characters(text) == []


@pytest.mark.parametrize("form", ["table", "csv"])
def test_an_import_of_names(
    form: str,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = runner("import", capsysbinary, monkeypatch)
    for suffix in SUFFIXES.values():
        names = f"cart{suffix}", f"pod{suffix}"
        rows = [[BEGIN_S + 30 * k, *names, 0.25, 9] for k in range(6)]
        pod = names[1].replace('"', "")
        with Path("t.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["ts", "app", pod, "cpu", "mem"], *rows])
        columns = POD_MAP["columns"] | {"pod": pod, "namespace": {"value": f"x{suffix}"}}
        Path("map.yaml").write_text(json.dumps(POD_MAP | {"columns": columns}))
        done = [
            run("table", "t.csv", "--map", "map.yaml", "--dry-run", "-o", form),
            run("table", "t.csv", "--map", "map.yaml", "--out", f"store{len(suffix)}", "-o", form),
        ]
        for one in done:
            assert one.code == 0, one.stderr
            assert raw_characters(one.stdout + one.stderr) == []
        shapes = [(shape(one.stdout), shape(one.stderr)) for one in done]
        if suffix == PLAIN:
            expected = shapes
        elif form == "csv":
            (row,) = csv.DictReader(done[1].lines)
            assert unescaped(row["target"]) == f"cart{suffix}"
    assert shapes == expected


# ---- a cluster


GROUP = {"kind": "APIGroup", "versions": [{"groupVersion": "autoscaling/v2", "version": "v2"}]}


def cluster(got: Got, wire: Wire) -> None:
    """Answer as an API server that has one HPA and refuses all else."""
    refusal = status(403, f"no {NASTY}", NASTY)
    if got.is_watch:
        wire.begin()
        wire.stopped.wait()
    elif got.path == "/version":
        wire.reply(200, {"major": "1", "minor": "38", "gitVersion": "v1.38.0"})
    elif got.path == "/apis/autoscaling":
        wire.reply(200, GROUP)
    elif got.path.endswith("/horizontalpodautoscalers"):
        item = manifest("web", "shop", f"web{NASTY}")
        item["metadata"] |= {"uid": "u", "resourceVersion": "5", "generation": 1}
        item["status"] = {"currentReplicas": 3, "desiredReplicas": 3}
        wire.reply(200, {"metadata": {"resourceVersion": "5"}, "items": [item]})
    elif got.path.endswith("/pods"):
        wire.reply(200, {"metadata": {"resourceVersion": "5"}, "items": []})
    else:
        wire.reply(403, refusal)


@pytest.mark.compiled
@pytest.mark.parametrize("form", ["table", "csv"])
def test_a_pass_over_a_cluster(
    form: str,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with serving(cluster) as server:
        path = kubeconfig(tmp_path, server.url)
        path.write_text(path.read_text().replace('"c"', json.dumps(f"c{NASTY}")))
        run = runner("live", capsysbinary, monkeypatch)
        done = run("--once", "--kubeconfig", path, "-o", form)
    assert done.code == 3
    assert raw_characters(done.stderr) == []
    assert not any(line.startswith("error: forged") for line in done.stderr.splitlines())
    assert raw_characters(done.stdout) == []
    if form == "csv":
        (row,) = csv.DictReader(done.lines)
        assert unescaped(row["cluster"]) == f"c{NASTY}"
        assert unescaped(row["reference"]) == f"Deployment/web{NASTY}"
    else:
        assert len(done.lines) == 2
