"""Kubernetes version of a cluster's rules: as given, as recorded, else the default."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import polars as pl

from hpabatch.engine.fleet.flags import recorded_gates
from hpabatch.errors import UsageError
from hpabatch.history.reader import History
from hpabatch.model.versions import DEFAULT_K8S, Profile, profile_for, taken_gates


@dataclass(frozen=True, slots=True)
class Versions:
    """The profile of each cluster that has one of its own, and of all others.

    `source` is given, recorded or assumed, `names` the versions themselves ("": of all); `warnings`
    tell of versions that changed meanwhile, and of those without a profile of their own. `gates`
    are the feature gates that are not as in the versions, as given.
    """

    profiles: Mapping[str, Profile]
    default: Profile
    source: str
    warnings: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    gates: str = ""

    def name_of(self, cluster: str) -> str:
        """Return a cluster's version such as 1.36.2, be there a profile of it or not."""
        return self.names.get(cluster, self.names.get("", self.default.name))

    def of(self, cluster: str) -> Profile:
        """Return the rules of a cluster."""
        return self.profiles.get(cluster, self.default)

    def one(self) -> Profile:
        """Return the one profile of all clusters (UsageError: they do not do the same).

        Of versions that do the same it is the newest.
        """
        profiles = sorted(self.profiles.values(), key=lambda profile: profile.name)
        found = {profile.rules(): profile for profile in profiles}
        if len(found) > 1:
            names = ", ".join(sorted({profile.name for profile in profiles}))
            raise UsageError(
                "the clusters of this history run different Kubernetes versions "
                f"({names}): name one with --k8s, or take the clusters one by "
                "one with --where \"cluster = '...'\" and it"
            )
        return next(iter(found.values()), self.default)

    def evidence(self) -> dict[str, str]:
        """Return the versions as a result's evidence has them."""
        found = {p.name: p for p in self.profiles.values()} or {self.default.name: self.default}
        profiles = [found[name] for name in sorted(found)]

        def each(field: str) -> str:
            if len(profiles) == 1:
                return str(getattr(profiles[0], field))
            return "; ".join(f"{p.name} {getattr(p, field)}" for p in profiles)

        texts = {
            "k8s": ", ".join(p.name for p in profiles),
            "k8s_source": self.source,
            "k8s_evidence": each("evidence"),
            "k8s_proof": each("proof"),
        }
        return texts | ({"feature_gates": self.gates} if self.gates else {})


def versions_of(
    controller: pl.DataFrame,
    k8s: str | None,
    gates: str = "",
    clusters: Collection[str] = (),
    own_gates: Mapping[str, str] | None = None,
) -> Versions:
    """Return the versions for a history's `controller` table; `k8s` None: as recorded.

    Of a cluster whose version changed the newest row counts. `clusters` are those of the history:
    one without a recorded version takes the default beside others that have one. Beside its
    recorded version count a cluster's recorded gates (`own_gates`; None: as in `controller`),
    unless some are given.

    Raises:
        UsageError: a version that is none, or older than the oldest profile.
    """
    if k8s is not None:
        profile = profile_for(k8s, gates)
        return Versions({}, profile, "given", _notes(profile, ""), {"": _release(k8s)}, gates)
    rows = controller.filter(pl.col("version").is_not_null()).sort(
        "cluster", "ts", maintain_order=True
    )
    recorded = recorded_gates(controller) if own_gates is None else own_gates
    profiles: dict[str, Profile] = {}
    warnings: list[str] = []
    names: dict[str, str] = {}
    for (cluster,), group in rows.group_by("cluster", maintain_order=True):
        name, texts = str(cluster), [str(text) for text, _ in groupby(group["version"])]
        found = [_recorded_profile(text, name) for text in texts]
        # The gates may have been recorded before an upgrade that did away with them.
        own = gates or taken_gates(texts[-1], recorded.get(name, ""))
        profiles[name], names[name] = profile_for(texts[-1], own), _release(texts[-1])
        warnings += _notes(found[-1], f"cluster {name}: ")
        if len({profile.rules() for profile in found}) > 1:
            warnings.append(
                f"cluster {name} was upgraded while it was recorded ({' -> '.join(texts)}): all of "
                f"it is decided by {profiles[name].name}'s rules; name another with --k8s"
            )
    source = _source(len(profiles), len({*profiles, *clusters}))
    is_used = not profiles or not profiles.keys() >= set(clusters)
    default = profile_for(DEFAULT_K8S, gates if is_used else taken_gates(DEFAULT_K8S, gates))
    if profiles:
        profiles |= {name: default for name in clusters if name not in profiles}
    return Versions(profiles, default, source, tuple(warnings), names, gates)


def _source(recorded: int, clusters: int) -> str:
    if recorded == 0:
        return "assumed"
    if recorded == clusters:
        return "recorded"
    return f"recorded for {recorded} of {clusters} clusters, else assumed"


def _release(text: str) -> str:
    """Return a version as upstream numbers it: 1.36.2 for `v1.36.2-gke.100`."""
    return text.strip().removeprefix("v").partition("-")[0].partition("+")[0]


def _recorded_profile(text: str, cluster: str) -> Profile:
    try:
        return profile_for(text)
    except UsageError as error:
        reason = str(error).removeprefix("--k8s ")
        raise UsageError(
            f"the recorded version of cluster {cluster} (controller.version) is of no use: "
            f"{reason}; name one with --k8s"
        ) from None


def _notes(profile: Profile, place: str) -> tuple[str, ...]:
    return (place + profile.notes,) if profile.notes else ()


def history_profile(history: History, k8s: str | None, gates: str = "") -> Profile:
    """Return the one profile of a history's clusters (UsageError: they differ, or see above)."""
    clusters = history.distinct("scales", ["cluster"])["cluster"].to_list()
    return versions_of(history.read("controller"), k8s, gates, clusters).one()
