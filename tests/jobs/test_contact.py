"""First contact with a scheduler: what is there instead is told, in seconds."""

from __future__ import annotations

import http.server
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hpabatch.errors import HpabatchError, UnfinishedError, UsageError
from hpabatch.inputs.workers import Spread, check_scheduler
from hpabatch.jobs import contact, dask_workers
from hpabatch.jobs.contact import brief
from tests.importers.prometheus.certificates import Authority
from tests.jobs.dask_cluster import LEAVES_SOCKETS, Cluster
from tests.jobs.squares import run

pytest.importorskip("distributed")
pytestmark = LEAVES_SOCKETS


def write_certificates(folder: Path) -> Path:
    """Write what a secret of Kubernetes has for TLS: ca.crt, tls.crt and tls.key."""
    folder.mkdir()
    authority = Authority(folder)
    pair = authority.pair("dask", ("10.9.8.7",))  # (Dask compares no names)
    for file, name in ((authority.ca, "ca.crt"), (pair.cert, "tls.crt"), (pair.key, "tls.key")):
        file.rename(folder / name)
    return folder


def options(folder: Path) -> list[str]:
    found: list[str] = []
    for name, file in (("ca-file", "ca.crt"), ("cert", "tls.crt"), ("key", "tls.key")):
        found += [f"--tls-{name}", str(folder / file)]
    return found


def refusal(
    tmp_path: Path,
    address: str,
    folder: Path | None = None,
    kind: type[HpabatchError] = UsageError,
) -> str:
    """Return how a scheduler is refused."""
    spread = Spread(scheduler=address, scheduler_tls=None if folder is None else str(folder))
    begin = time.monotonic()
    with pytest.raises(kind) as caught:
        run(tmp_path / "job", {"count": 3}, spread)
    assert time.monotonic() - begin < 10
    return str(caught.value)


@contextmanager
def listening(answer: Any = None) -> Iterator[str]:
    """Yield the address of a port that accepts, and does no more than `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return
                if answer is not None:
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@contextmanager
def web_pages() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    return write_certificates(tmp_path / "certificates")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "_CONNECT_S", 2)


def test_a_port_that_is_no_scheduler_is_told(
    tmp_path: Path, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_workers, "_CONNECT_S", 1)
    monkeypatch.setattr(contact, "_LOOK_S", 0.5)
    told = r"is no Dask scheduler \(.*\): expected its own port, usually 8786"
    with web_pages() as there:
        assert re.search(told, refusal(tmp_path, f"tcp://{there}"))
        assert re.search(r"speaks no TLS: ", refusal(tmp_path, f"tls://{there}", certificates))
    with listening(socket.socket.close) as there:
        assert re.search(told, refusal(tmp_path, f"tcp://{there}"))
    kept: list[socket.socket] = []
    with listening(kept.append) as there:
        for address, folder in ((f"tcp://{there}", None), (f"tls://{there}", certificates)):
            silent = refusal(tmp_path, address, folder, UnfinishedError)
            assert re.search(r"does not answer \(.*timed out\): start it, or check", silent)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
    with listening(lambda made: kept.append(context.wrap_socket(made, server_side=True))) as there:
        silent = refusal(tmp_path, f"tls://{there}", certificates, UnfinishedError)
        assert re.search(r"does not answer \(.*timed out\): start it, or check", silent)
    for connection in kept:
        connection.close()


def test_a_port_that_nothing_listens_at_is_told(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    told = refusal(tmp_path, f"tcp://127.0.0.1:{port}", kind=UnfinishedError)
    assert told.endswith(
        "does not answer (connection refused): start it, or check the address and the network"
    )


def test_one_that_speaks_tls(tmp_path: Path, certificates: Path) -> None:
    (tmp_path / "dask").mkdir()
    cluster = Cluster(tmp_path / "dask", 0, options=options(certificates), protocol="tls")
    there = cluster.address.partition("://")[2]
    try:
        told = refusal(tmp_path, f"tcp://{there}")
        assert "speaks TLS: expected a tls:// address, with --scheduler-tls" in told
        others = write_certificates(tmp_path / "others")
        told = refusal(tmp_path, f"tls://{there}", others)
        assert "is not to be trusted: its certificate is not one of ca.crt's auth" in told
        (others / "ca.crt").write_bytes((certificates / "ca.crt").read_bytes())
        told = refusal(tmp_path, f"tls://{there}", others)
        assert "refuses the certificate tls.crt (" in told
    finally:
        cluster.close()


def test_one_without_tls_and_a_worker(tmp_path: Path, certificates: Path) -> None:
    (tmp_path / "dask").mkdir()
    cluster = Cluster(tmp_path / "dask", 1)
    try:
        told = refusal(tmp_path, cluster.address.replace("tcp:", "tls:"), certificates)
        assert "speaks no TLS: start the scheduler with certificates" in told
        log = (tmp_path / "dask" / "dask.log").read_text()
        found = re.search(r"Start worker at: *(\S+)", log)
        assert found is not None
        told = refusal(tmp_path, found[1])
        assert f"got a Dask worker; its scheduler is at {cluster.address}" in told
    finally:
        cluster.close()


def test_an_error_of_dask_becomes_part_of_a_sentence() -> None:
    closed = "in <TCP (closed) ConnectionPool.ncores local=tcp://127.0.0.1:1>: Stream is closed"
    assert brief(OSError(closed)) == "Stream is closed"
    assert brief(OSError("Timed out after 30 s.\nmore")) == "Timed out after 30 s"
    assert brief(TimeoutError()) == "TimeoutError"


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:8786", "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:x", "tcp:",
     "tcp://127.0.0.1:99999", "tls://:8786", "tcp://127.0.0.1:8786/", "tcp://a/b:8786"],
)  # fmt: skip
def test_another_form_of_an_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match=r"expected tls://HOST:PORT, or tcp://HOST:PORT on this"):
        Spread.of({"scheduler": address})


def test_certificates_at_fault_are_named(tmp_path: Path, certificates: Path) -> None:
    other = write_certificates(tmp_path / "other")

    def told() -> str:
        with pytest.raises(UsageError) as caught:
            check_scheduler("tls://dask:8786", str(certificates), plain=False)
        return str(caught.value)

    check_scheduler("tls://dask:8786", str(certificates), plain=False)
    files = {name: (certificates / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")}
    for name, data in files.items():
        form = "private key" if name == "tls.key" else "certificate"
        for broken in (b"", b"nothing\n", data[:-40]):
            (certificates / name).write_bytes(broken)
            assert f"expected a {form} in PEM form in {certificates / name} (" in told()
        (certificates / name).unlink()
        assert f"there is no file {name}" in told()
        (certificates / name).write_bytes(data)
    (certificates / "tls.key").write_bytes((other / "tls.key").read_bytes())
    assert f"tls.key is not the key of {certificates / 'tls.crt'}; copy both" in told()


def test_a_key_with_a_password_is_refused(tmp_path: Path, certificates: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    file = certificates / "tls.key"
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(UsageError, match=r"expected a key without a password, got .*tls\.key wit"):
        Spread.of({"scheduler": "tls://dask:8786", "scheduler_tls": certificates})
