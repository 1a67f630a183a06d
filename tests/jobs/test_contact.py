"""First contact with a scheduler: what is there instead is told, in seconds."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hpabatch.errors import UnfinishedError, UsageError
from hpabatch.inputs.workers import Spread, check_scheduler
from hpabatch.jobs import dask_workers
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


@contextmanager
def listening(answer: Callable[[socket.socket], Any]) -> Iterator[str]:
    """Yield the address of a port that accepts, and does no more than `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    answer(server.accept()[0])

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    return write_certificates(tmp_path / "certificates")


def test_what_is_no_scheduler_is_told_in_seconds(
    tmp_path: Path, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_workers, "_CONNECT_S", 2)
    (tmp_path / "dask").mkdir()
    cluster = Cluster(tmp_path / "dask", 1)
    worker = re.search(r"Start worker at: *(\S+)", (tmp_path / "dask" / "dask.log").read_text())
    assert worker is not None
    kept: list[socket.socket] = []
    try:
        with listening(socket.socket.close) as closes, listening(kept.append) as silent:
            for address in (
                *("tcp://127.0.0.1:1", f"tcp://{closes}", f"tcp://{silent}", f"tls://{silent}"),
                *(worker[1], cluster.address.replace("tcp:", "tls:")),
            ):
                tls = str(certificates) if address.startswith("tls") else None
                begin = time.monotonic()
                with pytest.raises(UnfinishedError) as told:
                    run(
                        tmp_path / "job", {"count": 3}, Spread(scheduler=address, scheduler_tls=tls)
                    )
                assert time.monotonic() - begin < 10, address
                start = f"--scheduler {address} does not answer as a Dask scheduler ("
                assert str(told.value).startswith(start)
                assert "check its port (usually 8786), the network and whether" in str(told.value)
    finally:
        cluster.close()
        for connection in kept:
            connection.close()


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
