"""Files and folders that another user owns: a sentence, exit code 2, and nothing half-written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpabatch.cli import main
from hpabatch.cli.app import app
from hpabatch.errors import UsageError
from hpabatch.history.store.objects import ObjectStorage
from hpabatch.history.store.upkeep import migrate
from hpabatch.importers.common.work import work_folder
from tests.cli.histories import MANIFESTS, small
from tests.history.frames import write_all
from tests.importers.tables import POD_MAP, import_table, write_map

OTHER = 65534
ATTACK = "import prometheus --url http://127.0.0.1:1 --start 2026-10-01 --out OPEN/out"


def _refusal() -> str:
    """Return why files cannot be given to another user, "" if they can."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return "not root, or no setpriv: another user's files cannot be made"
    return ""


pytestmark = pytest.mark.skipif(bool(_refusal()), reason=_refusal() or "fine")


# Commands in one process: loading the libraries takes longer than all of them.
MANY = """
import contextlib, io, json, sys
from hpabatch.cli import main
for line in sys.stdin.read().splitlines():
    sys.argv, said, code = ["hpabatch", *line.split()], io.StringIO(), None
    out = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out):
        try:
            main()
        except SystemExit as left:
            code = left.code
        except Exception as error:
            said.write(f"{type(error).__name__}: {error}")
    print(json.dumps([code, said.getvalue()]))
"""


def told(folder: Path, commands: Sequence[str], **environment: str) -> list[tuple[int, str]]:
    """Run commands as a user to whom files of OTHER are foreign; return exit codes and talk.

    The interpreter may be in a folder that only root may enter: so it is root, without root's
    capabilities to read and write everything.
    """
    words = {"OPEN": "open", "SHUT": "shut", "READ": "read"}
    lines = "\n".join(_replaced(command, words, folder) for command in commands)
    without = "-dac_override,-dac_read_search,-fowner,-chown"
    done = subprocess.run(
        ["setpriv", f"--bounding-set={without}", sys.executable, "-c", MANY],
        env={**os.environ, **environment},
        cwd=folder / "open",
        input=lines,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [(code, said) for code, said in map(json.loads, done.stdout.splitlines())]


def _replaced(word: str, words: dict[str, str], folder: Path) -> str:
    for name, place in words.items():
        word = word.replace(name, str(folder / place))
    return word


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `open` (ours), `read` (may be read only) and `shut` (may not)."""
    top = tmp_path_factory.mktemp("users")
    for name in ("open", "read", "shut"):
        (top / name).mkdir()
    small(top / "read" / "history", minutes=2)
    migrate(write_all(top / "flat"), top / "read" / "store")
    shutil.copy(next(MANIFESTS.rglob("*.yaml")), top / "shut" / "x.yaml")
    (top / "read" / "tables" / "shut").mkdir(parents=True)
    (top / "read" / "tables" / "a.csv").write_text("ts,app,pod,cpu,mem\n")
    (top / "read" / "mappings" / "shut").mkdir(parents=True)
    write_map(top / "open", POD_MAP)
    for place, folders, _ in os.walk(top):
        for name in (place, *(os.path.join(place, one) for one in folders)):
            if Path(name) not in (top, top / "open"):
                os.chown(name, OTHER, OTHER)
                os.chmod(name, 0o700 if Path(name).name == "shut" else 0o755)
    return top


REFUSED = [
    ("record --out OPEN/r", "no kubeconfig"),
    ("validate SHUT", "cannot be read: permission denied"),
    ("validate SHUT/x.yaml", "cannot be read: permission denied"),
    ("history info SHUT", "cannot be read: Permission denied"),
    ("history info SHUT/x", "cannot be read: Permission denied"),
    ("plot SHUT/x --out OPEN/p", "it cannot be read: Permission denied"),
    ("recommend SHUT/x", "it cannot be read: Permission denied"),
    ("import table READ/tables --map OPEN/map.yaml --out OPEN/i", "tables/shut' cannot be"),
    (f"{ATTACK} --mapping SHUT/x.yaml", "cannot be read: Permission denied"),
    (f"{ATTACK} --mapping READ/mappings", "mappings/shut cannot be read: Permission denied"),
    (f"{ATTACK} --hpa-events SHUT", "cannot be read: Permission denied"),
    ("simulate READ/history --scenario SHUT/x.yaml", "cannot be read: Permission denied"),
    ("replay READ/history --out READ/z.parquet", "cannot be written: Permission denied"),
    ("simulate READ/history --trajectories READ/t.parquet", "--trajectories"),
    ("plan READ/history --out READ/p", "cannot be written: Permission denied"),
    ("plan READ/history --totals READ/p.csv", "cannot be written: Permission denied"),
    ("fidelity READ/history --changes READ/p.parquet", "cannot be written: Permission denied"),
    ("history compact READ/store", "cannot write"),
    ("history migrate READ/history READ/new", "cannot write"),
]


def test_a_place_of_another_user(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    # Of a user whose home may not be entered, as in containers.
    home = {"HOME": str(folder / "shut" / "x"), "KUBECONFIG": ""}
    found = told(folder, [command for command, _ in REFUSED], **home)
    for (command, sentence), (code, said) in zip(REFUSED, found, strict=True):
        assert (code, sentence in said) == (2, True), (command, said)
    assert sorted(folder.rglob("*")) == before


def test_no_folder_for_temporary_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a container whose root is read-only and that has no /tmp."""

    def refuse() -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._get_default_tempdir", refuse)
    source, path = str(folder / "read" / "tables" / "a.csv"), folder / "open" / "map.yaml"
    refused = "expected a folder for temporary files, got none"
    with pytest.raises(UsageError, match=refused):
        import_table([source], path, None)
    with pytest.raises(UsageError, match=refused):
        work_folder("s3://bucket/history", "digest")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    monkeypatch.setenv("AWS_REGION", "x")
    with pytest.raises(UsageError, match="gone: No such file"):
        ObjectStorage("s3://bucket/history").workspace().__enter__()


def test_what_no_reader_expected_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of the machine that reaches the top names its file; others are bugs of ours."""
    for number, code in ((errno.EMFILE, 2), (errno.EACCES, 2), (errno.EPIPE, None)):

        def fail(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number), "pods.parquet")

        monkeypatch.setattr(type(app), "__call__", fail)
        with pytest.raises(SystemExit if code else OSError) as left:
            main()
        if code:
            assert getattr(left.value, "code", None) == code
            assert capsys.readouterr().err.startswith(f"error: pods.parquet: {os.strerror(number)}")
