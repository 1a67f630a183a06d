"""Assembly of an applier: own documents, clients, lease, limits."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from hpabatch.cluster.apis.discovery import Discovery, target_key
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.connect import Connection
from hpabatch.cluster.connection.errors import ApiError, NotFound
from hpabatch.cluster.connection.writes import Budget, WriteClient
from hpabatch.cluster.objects.types import HpaObject, ScaleKey
from hpabatch.cluster.watch.site import Site
from hpabatch.errors import ManifestError, UsageError
from hpabatch.inputs.keda import GROUP
from hpabatch.inputs.manifests import check_manifests, load_manifests
from hpabatch.live.apply.applier import Applier
from hpabatch.live.apply.guards import Gate, read_switch
from hpabatch.live.apply.journal import Journal
from hpabatch.live.apply.lease import DRY_NAME, NAME, Candidate, Election
from hpabatch.live.apply.ledger import Ledger
from hpabatch.live.apply.request import ApplyOptions
from hpabatch.live.apply.rivals import Probe, Rivals, Silence, silence_s
from hpabatch.live.apply.scales import ScaleWriter
from hpabatch.live.apply.statuses import HpaStatuses
from hpabatch.live.passes.decide import Decider
from hpabatch.model.objects.validate import undecidable
from hpabatch.model.versions import Profile

_STATUS_VERSIONS: Final = ("v2", "v2beta2")
_BURSTS: Final = 2  # seconds of a rate that a budget saves up
_TIMEOUT_S: Final = 5.0


class Place(NamedTuple):
    """Cluster, own namespace and files of an applier.

    Attributes:
        connect: makes a connection; each client needs its own.
        namespace: hpabatch's own.
        log: file of the journal.
        skew_s: the API server's clock less the local clock; None: unknown.
    """

    connect: Callable[[], Connection]
    discovery: Discovery
    cluster: str
    namespace: str
    log: Path
    period_s: float
    hpas: Site
    skew_s: Callable[[], float | None] = lambda: None


def read_documents(
    paths: Sequence[str], profile: Profile, namespace: str, watched: Sequence[str] = ()
) -> list[HpaObject]:
    """Return the HPAs of manifests, all of which must be valid, without those of KEDA.

    KEDA scales to and from zero itself, and has its HPAs in the cluster.

    Args:
        profile: the rules that they are checked with.
        watched: the only namespaces whose HPAs are watched; none: all are. Elsewhere an HPA of the
            cluster on the same target would not be seen.

    Raises:
        ManifestError: one cannot be read, is refused, given twice or in a namespace that is not
            watched, two name one target, or there is none.
    """
    found: dict[tuple[str, str], HpaObject] = {}
    targets: dict[ScaleKey, str] = {}
    for item in check_manifests(load_manifests(paths).entries, profile):
        place = item.entry.place
        if item.entry.hpa is not None and item.entry.hpa.api_version.startswith(GROUP):
            continue
        if item.hpa is None:
            raise ManifestError(f"--manifests: {place}: {item.complaints[0]}; correct it")
        key = (item.hpa.namespace or namespace, item.hpa.name)
        if key in found:
            raise ManifestError(f"--manifests: {place}: {'/'.join(key)} is given twice; remove one")
        if watched and key[0] not in watched:
            raise ManifestError(
                f"--manifests: {place}: expected a namespace of -n ({', '.join(watched)}), got "
                f"{key[0]}, where an HPA of the cluster on the same target would not be seen; add "
                f"-n {key[0]}, or leave the document out"
            )
        hpa = replace(item.hpa, namespace=key[0], uid=f"{place}:{'/'.join(key)}", generation=None)
        problem = undecidable(hpa, profile)
        if problem:
            raise ManifestError(f"--manifests: {place}: {problem}; correct it")
        ref = hpa.spec.scale_target_ref
        other = targets.setdefault(target_key(key[0], ref), "/".join(key))
        if other != "/".join(key):
            raise ManifestError(
                f"--manifests: {place}: {ref.kind}/{ref.name} is the target of {other} too; remove "
                "one of the two"
            )
        found[key] = HpaObject(*key, hpa)
    if not found:
        raise ManifestError(f"--manifests {' '.join(paths)}: no HPA was found")
    return list(found.values())


def make_applier(
    options: ApplyOptions,
    place: Place,
    decider: Decider,
    documents: Site | None,
    say: Callable[[str, str], None],
    stack: ExitStack,
    silence: Silence | None = None,
) -> Applier:
    """Return the applier of a loop; it is stopped when `stack` is closed.

    Args:
        documents: the site, with own documents; None: the cluster's HPAs are taken over.
        say: gets event and text of notes.
        silence: None: of production; tests may give a shorter one.

    Raises:
        UsageError: the server lacks what is needed, or refuses the lease or the switch.
    """
    version = _status_version(place.discovery)
    identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
    journal = Journal(place.log, {"identity": identity, "cluster": place.cluster})
    own_lease = stack.enter_context(WriteClient(place.connect()))
    name = DRY_NAME if options.dry_run else NAME
    candidate = Candidate(place.namespace, identity, options.lease_ms // 1000, name)
    _check_lease(own_lease, candidate)
    election = Election(own_lease, candidate, say=lambda text: say("note", text))
    fence = election.refusal
    control = stack.enter_context(WriteClient(place.connect(), fence=fence))
    sizes = stack.enter_context(WriteClient(place.connect(), dry_run=options.dry_run, fence=fence))
    # A client of its own: a stop ends the loop's, while a pass that has begun is still written.
    own = Discovery(stack.enter_context(ApiClient(place.connect())))
    gate = Gate(
        place.period_s, election, lambda: read_switch(control, place.namespace),
        log=lambda: journal.problem,
    )  # fmt: skip
    is_own = documents is not None
    scales = ScaleWriter(sizes, own, _budget(options.write_rate), gate)
    rivals = Rivals(place.hpas, documents, None, None)
    if not is_own:
        rivals.silence = silence or Silence(silence_s(place.period_s), place.period_s)
        rivals.probe = Probe(control, version, place.namespace, rivals.silence)
    statuses: HpaStatuses | None = None
    if not options.dry_run and not is_own:
        statuses = HpaStatuses(control, version, _budget(options.write_rate), gate)
    applier = Applier(
        client=control, namespace=place.namespace, scales=scales, gate=gate, statuses=statuses,
        election=election, journal=journal,
        ledger=Ledger(control, place.namespace, election, place.skew_s),
        rivals=rivals, options=options, decider=decider, say=say,
    )  # fmt: skip
    stack.callback(applier.stop)
    return applier


def _budget(rate: int) -> Budget:
    return Budget(rate, _BURSTS * rate)


def _status_version(discovery: Discovery) -> str:
    version = discovery.hpa_version()
    if version not in _STATUS_VERSIONS:
        raise UsageError(
            f"--apply needs autoscaling/v2 or v2beta2; this API server serves {version} at best"
        )
    return version


def _check_lease(client: WriteClient, candidate: Candidate) -> None:
    """Find out early whether the lease may be read: without it nothing is ever written."""
    try:
        client.read(f"{candidate.collection}/{candidate.name}", _TIMEOUT_S)
    except NotFound:
        return
    except ApiError as error:
        raise UsageError(
            f"--apply: the lease {candidate.namespace}/{candidate.name} cannot be read "
            f"({error.text}): name a namespace with --own-namespace in which this login may write "
            "leases (deploy/apply/rbac.yaml)"
        ) from error
