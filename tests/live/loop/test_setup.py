"""Tests of a loop's parameters: given, or as Kubernetes has them."""

from __future__ import annotations

import pwd
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hpabatch.errors import UsageError
from hpabatch.live.loop.request import RecordRequest
from hpabatch.live.loop.setup import log_file, settle, state_file
from hpabatch.model.versions import ControllerFlags, profile_for

HPA = "horizontal-pod-autoscaler"


def test_without_anything_the_server_s_version_and_the_usual_flags() -> None:
    found = settle(None, "", (), "v1.31.4-gke.100", None)
    assert (found.k8s, found.flags_source) == ("v1.31.4-gke.100", "assumed")
    assert found.flags == ControllerFlags()
    assert found.profile == profile_for("1.31")


def test_what_is_given_goes_before() -> None:
    found = settle("1.33", "", ("tolerance=0.05", "--downscale-stabilization=1m"), "v1.20.2", 500)
    assert found.k8s == "1.33"
    assert found.flags == ControllerFlags(
        tolerance=0.05, downscale_stabilization_ms=60_000, sync_period_ms=500
    )
    assert found.flags_named["horizontal-pod-autoscaler-tolerance"] == "0.05"


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("tolerance", "NAME=VALUE"),
        ("tolerance=much", "tolerance"),
        ("upscale-delay=3m", "NAME one of tolerance"),
        ("downscale-stabilization=5", "duration"),
        ("sync-period=0s", "sync period is 0"),
    ],
)
def test_a_bad_flag_is_a_sentence(flag: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        settle(None, "", (flag,), "v1.31.0", None)


def test_a_state_file_has_a_harmless_name() -> None:
    found = state_file({"XDG_STATE_HOME": "/state"}, "prod/../eu west", "https://a")
    assert found.parent == Path("/state/hpabatch")
    assert re.fullmatch(r"live-prod~2f\.\.~2feu~20west-[0-9a-f]{8}\.json", found.name)
    other = state_file({"XDG_STATE_HOME": "/state"}, "prod/../eu west", "https://b")
    assert other != found, "two clusters of one name do not share it"
    assert state_file({"HOME": "/home/me"}, "a", "b").parent == Path(
        "/home/me/.local/state/hpabatch"
    )


def test_the_log_of_writes_is_beside_it() -> None:
    found = log_file({"XDG_STATE_HOME": "/state"}, "a/b", "https://a")
    assert re.fullmatch(r"/state/hpabatch/apply-a~2fb-[0-9a-f]{8}\.jsonl", str(found))
    assert found != log_file({"XDG_STATE_HOME": "/state"}, "a/b", "https://b")


@pytest.mark.parametrize(("file", "option"), [(state_file, "--state"), (log_file, "--apply-log")])
def test_without_a_home_a_file_needs_a_place(
    file: Callable[..., Path], option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is in containers: a number without a name, and no HOME."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(UsageError, match=rf"no HOME .* {option}"):
        file({}, "a", "b")
    assert file({"XDG_STATE_HOME": "/state"}, "a", "b").parent == Path("/state/hpabatch")


def test_a_recording_is_a_loop_that_forgets() -> None:
    asked = RecordRequest(out="history", namespace=("shop",), every_ms=5000, metrics_addr=":9099")
    loop = asked.as_live()
    loop.check()
    assert (loop.record, loop.stateless, loop.apply, loop.once) == ("history", True, False, False)
    assert (loop.namespace, loop.every_ms, loop.metrics_addr) == (("shop",), 5000, ":9099")
