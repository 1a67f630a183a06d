"""A real API server 1.20.2 with its kubectl, for the tests that compare with it.

They are no part of the project: HPABATCH_CLUSTER_SCRIPTS names the folder of the scripts that start
and stop it, HPABATCH_CLUSTER the folder of what they start (else ~/.cache/hpabatch-cluster).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.ports import hold_port, port_of

VARIABLE = "HPABATCH_CLUSTER_SCRIPTS"
NEWER_KUBECTLS = tuple(f"1.{minor}" for minor in range(27, 34))
"""Versions of kubectl to compare with besides 1.20, where the machine has them."""

_PORTS = ("P_ETCD", "P_PEER", "P_API", "P_STUB", "P_KCM")
_ATTEMPTS = 3
# What up.sh, or the kubectl that it waits with, says when its patience is at its end.
_IMPATIENT = ("not ready", "timed out waiting")


def build_folder() -> Path:
    return Path(os.environ.get("HPABATCH_CLUSTER") or Path.home() / ".cache/hpabatch-cluster")


def missing() -> str:
    """Return why there can be no cluster here, "" if there can."""
    scripts = os.environ.get(VARIABLE, "")
    if not scripts:
        return f"{VARIABLE} does not name the folder of the cluster's scripts"
    if not Path(scripts, "up.sh").is_file():
        return f"{VARIABLE}={scripts} holds no up.sh"
    if not (build_folder() / "complete").exists():
        return f"{build_folder()} is not complete: run {scripts}/setup.sh"
    return ""


def newer_kubectl(version: str) -> Path | None:
    """Return `kubectl.1.27`, or another, on the PATH or beside the installed kubectl."""
    name, installed = f"kubectl.{version}", shutil.which("kubectl")
    beside = [] if installed is None else [str(Path(installed).resolve().parent)]
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *beside]))
    return None if found is None else Path(found)


def _programs() -> Path:
    return build_folder() / "root/usr/bin"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running API server; `environment` is the one that its kubectl takes."""

    environment: dict[str, str]

    def kubectl(
        self, *arguments: str, stdin: str | None = None, program: Path | None = None
    ) -> str:
        """Return what kubectl (1.20.2, or another one) prints; its stderr may hold warnings."""
        done = self.try_kubectl(*arguments, stdin=stdin, program=program)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def try_kubectl(
        self, *arguments: str, stdin: str | None = None, program: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl, which may refuse."""
        return self._run([str(program or _programs() / "kubectl"), *arguments], stdin=stdin)

    def try_shell(self, command: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a command line in a folder, as one who has this kubectl types it."""
        return self._run(["bash", "-c", command], folder=folder)

    def _run(
        self, arguments: list[str], stdin: str | None = None, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments, input=stdin, capture_output=True, text=True, check=False, cwd=folder,
            env=self.environment,
        )  # fmt: skip


@contextmanager
def running_cluster(
    folder: Path,
    api_arguments: str = "",
    flags: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Start an API server on free ports, in a folder, and stop it again.

    Without `flags` (of up.sh) there are no controllers; `more` are variables that up.sh takes.
    """
    settings = {
        **os.environ, **(more or {}), "RUN": str(folder),
        "HPABATCH_CLUSTER": str(build_folder()),
        "API_ARGS": api_arguments, "HOME": str(folder), "TZ": "UTC",
        "KUBECONFIG": str(folder / "kubeconfig"),
        "PATH": f"{_programs()}:{os.environ['PATH']}",
    }  # fmt: skip
    up = ["bash", str(Path(os.environ[VARIABLE], "up.sh")), "--fresh", *flags]
    with ExitStack() as stack:
        said: list[str] = []
        for _ in range(_ATTEMPTS):  # the patience of up.sh may be too short for a busy machine
            stack.close()
            environment = {**settings, **_held_ports(stack)}
            stack.callback(_end, environment)
            code, text = _run_up(up, environment)
            said.append(text)
            if code == 0 or not any(words in text for words in _IMPATIENT):
                break
        assert code == 0, "\n".join(said)
        yield Cluster(environment)


def _run_up(up: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Return how up.sh ended, and what it said; up.log holds what all attempts said."""
    with Path(environment["RUN"], "up.log").open("a+") as log:
        begin = log.tell()
        # A pipe would stay open in its children.
        started = subprocess.run(up, env=environment, stdout=log, stderr=log, check=False)
        log.seek(begin)
        return started.returncode, log.read()


def _end(environment: Mapping[str, str]) -> None:
    """End what up.sh started."""
    _kill(Path(environment["RUN"]))
    down = ["bash", str(Path(environment[VARIABLE], "down.sh"))]
    subprocess.run(down, env=environment, capture_output=True, check=True)


def _kill(folder: Path) -> None:
    """Kill what up.sh started: of a cluster that is thrown away nothing has to end in peace.

    An API server that is asked to end waits some ten seconds for its watches. A number may be
    another process's by now; the command lines of all that up.sh starts name files of the folder.
    """
    pids = folder / "pids"
    lines = pids.read_text().splitlines() if pids.exists() else []
    for pid in (int(line.split()[1]) for line in lines):
        with suppress(ProcessLookupError, FileNotFoundError):
            if os.fsencode(f"{folder}/") in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


def _held_ports(stack: ExitStack) -> dict[str, str]:
    """Return ports that nobody else is given before the stack is closed."""
    return {name: str(port_of(stack.enter_context(hold_port()))) for name in _PORTS}
