"""Flags of the cluster's own HPA controller, where its pod can be read.

Where the control plane runs as pods (kubeadm, kops, kind, …) kube-controller-manager's command line
is in its pod; managed services hide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import ApiError
from hpabatch.cluster.objects.objects import UNREADABLE, Text

_PATH: Final = "/api/v1/namespaces/kube-system/pods"
_LABEL: Final = "component=kube-controller-manager"
_PREFIX: Final = "--horizontal-pod-autoscaler-"
_GATES: Final = "--feature-gates"


class _Container(msgspec.Struct, gc=False):
    command: list[str] | None = None
    args: list[str] | None = None


class _Spec(msgspec.Struct, gc=False):
    containers: list[_Container] | None = None


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec | None = None


class _Pods(msgspec.Struct, gc=False):
    items: list[_Pod] | None = None


_PODS = msgspec.json.Decoder(_Pods)


class ControllerSeen(msgspec.Struct, frozen=True):
    """Flags of a controller's command line.

    Attributes:
        flags: names without dashes and values, only those about HPAs; empty: none is set.
        feature_gates: the value of --feature-gates.
    """

    flags: Mapping[str, str]
    feature_gates: Text = None


def read_controller(client: ApiClient) -> ControllerSeen | None:
    """Return the flags of the cluster's controller, None where they cannot be read."""
    try:
        body = client.get(_PATH, {"labelSelector": _LABEL}, attempts=1, timeout=10.0)
        found = _PODS.decode(body)
    except (ApiError, *UNREADABLE):
        return None
    words = [
        word
        for pod in found.items or ()
        for container in (pod.spec.containers if pod.spec else None) or ()
        for word in (*(container.command or ()), *(container.args or ()))
    ]
    return _read_words(words) if words else None


def _read_words(words: list[str]) -> ControllerSeen:
    flags: dict[str, str] = {}
    gates: str | None = None
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not equals:
            following = words[position + 1] if position + 1 < len(words) else ""
            value = "" if following.startswith("-") else following
        if name == _GATES:
            gates = value
        elif name.startswith(_PREFIX):
            flags[name.lstrip("-")] = value
    return ControllerSeen(flags, gates)
