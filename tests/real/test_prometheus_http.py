"""The client against a real Prometheus: samples to the last bit, limits, TLS and passwords."""

from __future__ import annotations

import math
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hpabatch.errors import HpabatchError, UsageError
from hpabatch.importers.prometheus.client.http import (
    Limits,
    RefusedQueryError,
    Server,
    TooMuchError,
)
from hpabatch.importers.prometheus.client.login import Login, read_login
from hpabatch.importers.prometheus.client.queries import (
    Query,
    RangeRequest,
    Request,
    SeriesRequest,
)
from hpabatch.importers.prometheus.request import LoginOptions
from tests.importers.prometheus.certificates import Authority
from tests.real.prometheus import backfill, missing, program, running_prometheus, stop_process

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

START_S = 1_700_000_000
COUNT = 300
UNTIL_MS = (START_S + 60 * COUNT) * 1000
DAY_MS = 86_400_000
LOAD = Query("load", ("load",))
PODS = [f"web-{k}" for k in range(8)]
QUICK = Limits(first_wait_s=0.001, longest_wait_s=0.02)
PASSWORD = "correct horse"
# of PASSWORD, by bcrypt
PASSWORD_HASH = "$2b$04$1bNJaUjJJU9Yv59sz33jo.tzhscURod0JeK8LeHiq5Dq8H3XrFprq"


def stepped(promql: str, from_ms: int = UNTIL_MS - 120_000) -> RangeRequest:
    return RangeRequest("x", promql, from_ms - 1, UNTIL_MS, 60_000)


def sample(pod: int, k: int) -> tuple[int, float]:
    """Return the time (ms) and the value of a sample; times are not regular."""
    value = math.inf if (pod, k) == (3, 7) else math.nan if (pod, k) == (3, 9) else k / 7 + pod
    return (START_S + 60 * k) * 1000 + (pod * 131 + k * 37) % 1000, value


def written(pod: int) -> list[tuple[int, float]]:
    return [sample(pod, k) for k in range(COUNT)]


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blocks")
    lines = ["# TYPE load gauge"]
    for place, pod in enumerate(PODS):
        for ts, value in written(place):
            text = repr(value).replace("inf", "+Inf").replace("nan", "NaN")
            lines.append(f'load{{namespace="shop",pod="{pod}"}} {text} {ts / 1000:.3f}')
    file = folder / "load.om"
    file.write_text("\n".join([*lines, "# EOF\n"]))
    backfill(file, folder / "data")
    return folder / "data"


@pytest.fixture(scope="module")
def url(blocks: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), blocks) as found:
        yield found


def raw(server: Server, pod: str, window_s: int = 60 * COUNT) -> list[tuple[int, float]]:
    ask = SeriesRequest(LOAD, "raw", UNTIL_MS - window_s * 1000, UNTIL_MS, {"pod": (pod,)})
    return server.fetch(ask).points.select("ts", "value").rows()


def test_samples_come_back_to_the_last_bit(url: str) -> None:
    with Server(url) as server:
        for place, pod in enumerate(PODS):
            assert repr(raw(server, pod)) == repr(written(place))
        whole = server.fetch(WHOLE_DAY)
        figures = server.figures
    assert whole.series["pod"].to_list() == PODS
    assert whole.count == figures.largest_samples == COUNT * len(PODS)


def test_vectors_ranges_and_labels(url: str) -> None:
    with Server(url) as server:
        steps = server.fetch(stepped("count(load)", UNTIL_MS - 300_000))
        times = [ms for ms in range(UNTIL_MS - 300_000, UNTIL_MS + 1) if ms % 60_000 == 0]
        assert steps.points["ts"].to_list() == times
        now = SeriesRequest(LOAD, "now", UNTIL_MS - 60_000, UNTIL_MS)
        assert server.fetch(now).series["pod"].to_list() == PODS
        assert server.fetch(replace(now, from_ms=0, form="max")).points["value"].max() == math.inf
        assert server.fetch(replace(now, query=Query("x", ("x",)))).series.is_empty()
        matcher = ['load{pod!="web-0"}']
        assert server.label_values("pod", matcher, START_S * 1000, UNTIL_MS) == PODS[1:]
        assert server.build_info()["version"].startswith("2.")


def test_what_it_refuses(url: str) -> None:
    with Server(url) as server:
        with pytest.raises(RefusedQueryError, match="parse error"):
            server.fetch(stepped("load{"))
        assert server.figures.retries == 0
    with Server(f"{url}/prometheus") as server, pytest.raises(UsageError, match="lack a path"):
        server.fetch(stepped("load"))


WHOLE_DAY = SeriesRequest(LOAD, "raw", UNTIL_MS - DAY_MS, UNTIL_MS, {"pod": tuple(PODS)})
# Far more work than the limit allows; one of its evaluations is far less.
SLOW = stepped("quantile_over_time(0.5, load[1h:1s])", UNTIL_MS - DAY_MS)
LIMITS: dict[str, Request] = {"--query.max-samples=1000": WHOLE_DAY, "--query.timeout=50ms": SLOW}


@pytest.mark.parametrize("flag", LIMITS)
def test_its_limits(blocks: Path, tmp_path: Path, flag: str) -> None:
    with (
        running_prometheus(tmp_path, blocks, extra_flags=[flag]) as url,
        Server(url, limits=QUICK) as server,
    ):
        with pytest.raises(TooMuchError, match="twice"):
            server.fetch(LIMITS[flag])
        assert raw(server, "web-1", 120)


# --- TLS and passwords ---------------------------------------------------------------------------


@contextmanager
def secured(folder: Path, settings: str) -> Iterator[str]:
    """Serve nothing, in a way that a web configuration says; give host and port."""
    (folder / "prometheus.yml").write_text("")
    (folder / "web.yml").write_text(settings)
    log = folder / "log"
    command = [
        str(program("prometheus")), f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data", f"--web.config.file={folder}/web.yml",
        "--web.listen-address=127.0.0.1:0",
    ]  # fmt: skip
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
    try:
        yield _address(process, log)
    finally:
        stop_process(process)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        text = log.read_text()
        if "Server is ready" in text:
            return text.partition('msg="Listening on" address=')[2].split()[0]
        time.sleep(0.05)
    raise RuntimeError(f"Prometheus is not ready: {log.read_text()[-4000:]}")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def address(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server is that wants a password."""
    pair = authority.pair("server")
    settings = f"""
tls_server_config:
  cert_file: {pair.cert}
  key_file: {pair.key}
basic_auth_users:
  jo: {PASSWORD_HASH}
"""
    with secured(tmp_path_factory.mktemp("secured"), settings) as found:
        yield found


def login(authority: Authority, password: str = PASSWORD, *, insecure: bool = False) -> Login:
    options = LoginOptions.of(
        {
            "user": "jo",
            "insecure": insecure,
            "ca": None if insecure else authority.ca,
        }
    )
    return read_login({"HPABATCH_PROMETHEUS_PASSWORD": password}, options)


def asked(url: str, who: Login | None) -> str:
    """Return "fine" of a server that answers, else what the error says."""
    try:
        with Server(url, who, QUICK) as server:
            assert server.fetch(stepped("vector(1)")).count > 0
            return "fine"
    except HpabatchError as error:
        return f"{type(error).__name__}: {error}"


def test_certificates_and_passwords(address: str, authority: Authority) -> None:
    assert asked(f"https://{address}", login(authority)) == "fine"
    assert asked(f"https://{address}", login(authority, insecure=True)) == "fine"


def test_who_is_not_let_in(address: str, authority: Authority, tmp_path: Path) -> None:
    url = f"https://{address}"
    other = Authority(tmp_path, "other")
    wrong = "s3cr3t-Zx9"
    for who, told in (
        (login(authority, wrong), "CredentialsError: .* 401: Unauthorized"),
        (Login(ca=authority.ca), "CredentialsError: .* 401"),
        (login(other), "CredentialsError: .* not trusted .* with --ca"),
        (None, "CredentialsError: .* not trusted"),
    ):
        said = asked(url, who)
        assert re.match(told, said), said
        assert wrong not in said
        assert PASSWORD not in said
    assert "begin --url with https://" in asked(f"http://{address}", None)


def test_tls_where_there_is_none(url: str) -> None:
    assert "speaks no TLS" in asked(url.replace("http:", "https:"), None)
