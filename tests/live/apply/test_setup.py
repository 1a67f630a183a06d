"""Assembly of an applier against an API server that has nothing."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from hpabatch.cluster.apis.discovery import Discovery
from hpabatch.cluster.connection.errors import Withheld
from hpabatch.cluster.watch.site import Site
from hpabatch.live.apply.request import ApplyOptions
from hpabatch.live.apply.setup import Place, make_applier
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.lanes import LaneKey
from hpabatch.model.versions import DEFAULT_K8S, ControllerFlags, profile_for
from tests.cluster.fake_api import connected, serving, status


class _Discovery(Discovery):
    def __init__(self) -> None:
        pass

    def hpa_version(self) -> str:
        return "v2"


class _Hpas(Site):
    def __init__(self) -> None:
        pass

    def blindness(self) -> str:
        return ""

    def unreadable(self) -> dict[LaneKey, str]:
        return {}


@pytest.mark.parametrize(
    ("dry_run", "lease"), [(False, "hpabatch-apply"), (True, "hpabatch-apply-dry-run")]
)
def test_a_dry_run_has_a_lease_of_its_own(dry_run: bool, lease: str, tmp_path: Path) -> None:
    """Otherwise an instance that writes would wait for one that does not."""
    with (
        serving(lambda got, wire: wire.reply(404, status(404, "not found"))) as server,
        ExitStack() as stack,
    ):
        place = Place(
            lambda: connected(tmp_path, server.url), _Discovery(), "c", "ours", tmp_path / "log",
            15.0, _Hpas(),
        )  # fmt: skip
        options = ApplyOptions(apply=True, take_over=True, dry_run=dry_run)
        decider = Decider(profile_for(DEFAULT_K8S), ControllerFlags())
        applier = make_applier(options, place, decider, None, lambda event, text: None, stack)
        assert server.got[0].path.endswith(f"/namespaces/ours/leases/{lease}")
        assert not applier.figures.leads
        for client in (applier.client, applier.scales._client):
            with pytest.raises(Withheld, match="does not hold the lease for long enough"):
                client.write("PUT", "/api/v1/namespaces/ours/configmaps/x", {}, 3)
        assert {got.method for got in server.got} == {"GET"}
