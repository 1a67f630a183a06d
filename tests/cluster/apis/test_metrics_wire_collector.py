"""The garbage collector is held back no longer than somebody holds it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from hpabatch.cluster.apis.metrics import collector_held


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


def test_held_until_the_last_lets_go() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collector_held():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    with collector_held():
        thread.start()
        assert inside.wait(30)
        assert not gc.isenabled()
    assert not gc.isenabled()
    leave.set()
    thread.join(30)
    assert gc.isenabled()
