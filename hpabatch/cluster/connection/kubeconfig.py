"""Kubeconfig files and in-cluster configuration: the API server and the user.

Files are merged as kubectl merges them: of entries with the same name the first counts, relative
paths are relative to their file. Unsupported settings are refused with a message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from hpabatch.cluster.connection.auth import ExecSpec, exec_spec
from hpabatch.errors import UsageError
from hpabatch.history.files import open_regular, read_regular

VARIABLE: Final = "KUBECONFIG"
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MOST_BYTES: Final = 16 * 2**20
_LISTS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}
_FILES: Final = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_Json = dict[str, Any]


class Server(msgspec.Struct, rename="kebab"):
    """A cluster of a kubeconfig; `*_data` are base64."""

    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class User(msgspec.Struct, rename="kebab"):
    """A user of a kubeconfig, without what its plugin says; `*_data` are base64."""

    username: str | None = None
    password: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None


class Context(msgspec.Struct):
    """A context of a kubeconfig."""

    cluster: str
    user: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A server and its credentials; file names are absolute. `repr` shows no secret.

    Attributes:
        context, server, user: its entries; without a user, requests are anonymous.
        where: the file, for messages.
        plugin: the exec plugin that gives credentials.
    """

    name: str
    context: Context
    server: Server = field(repr=False)
    user: User = field(repr=False)
    where: str
    plugin: ExecSpec | None = None


def in_pod(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Target:
    """Return the cluster that this process runs in, with the service account of its pod.

    Raises:
        UsageError: the process is not in a pod, or the pod has no service account's token.
    """
    host, port = (environ.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    if not host or not port:
        raise UsageError(
            "--in-cluster: expected a pod of a cluster, but KUBERNETES_SERVICE_HOST is not set: "
            "leave the option out to use a kubeconfig"
        )
    token, authority = folder / "token", folder / "ca.crt"
    for path in (token, authority):
        if not os.path.isfile(path):
            raise UsageError(
                f"--in-cluster: there is no {path}: let the pod have a service account's token "
                "(automountServiceAccountToken)"
            )
    try:
        namespace = read_regular(folder / "namespace").decode("utf-8", "replace").strip()
    except OSError:
        namespace = ""
    address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    name = "in-cluster"
    return Target(
        name,
        Context(name, name, namespace or None),
        Server(address, certificate_authority=str(authority)),
        User(token_file=str(token)),
        where=str(folder),
    )


def of_files(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str]) -> Target:
    """Return the target of a context of kubeconfig files.

    Args:
        kubeconfig: None: those of the variable KUBECONFIG, or ~/.kube/config.
        context: None: the current one.
        environ: for KUBECONFIG and HOME.

    Raises:
        UsageError: a file or an entry is missing, broken, or has unsupported settings.
    """
    paths = [kubeconfig] if kubeconfig is not None else _usual(environ)
    read = [(path, _read(path)) for path in paths if kubeconfig is not None or os.path.exists(path)]
    if not read:
        raise UsageError(
            f"no kubeconfig: {' and '.join(str(path) for path in paths)} is not there. Name one "
            f"with --kubeconfig or {VARIABLE}, or give --in-cluster inside a pod"
        )
    where = ", ".join(str(path) for path, _ in read)
    merged = _merged(read)
    chosen = context or merged.get("current-context")
    if not chosen:
        names = ", ".join(sorted(str(one["name"]) for one in merged["contexts"]))
        raise UsageError(f"{where}: no current context: name one with --context ({names})")
    try:
        return _target(merged, str(chosen), where)
    except (TypeError, AttributeError):
        raise UsageError(
            f"{where}: context {str(chosen)!r} cannot be used: a list or a mapping is missing "
            "where one belongs"
        ) from None


def _usual(environ: Mapping[str, str]) -> list[Path]:
    named = [Path(one) for one in environ.get(VARIABLE, "").split(os.pathsep) if one]
    # Without a home, as in containers, "~" stays: there is no such file.
    home = environ.get("HOME") or os.path.expanduser("~")
    return named or [Path(home, ".kube", "config")]


def _read(path: Path) -> _Json:
    path = path.expanduser()
    try:
        with open_regular(path, pipes=True) as stream:
            text = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if len(text) > _MOST_BYTES:
        raise UsageError(f"{path} is larger than {_MOST_BYTES // 2**20} MiB: no kubeconfig?")
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # The error quotes the file, which may hold secrets: only the line is named.
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark is not None else ""
        raise UsageError(f"{path}: expected YAML, got a syntax error{place}: correct it") from None
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise UsageError(f"{path}: expected a kubeconfig, got no mapping: name another file")
    return found


def _merged(read: Sequence[tuple[Path, _Json]]) -> _Json:
    """Return the files merged; of two entries with the same name, the first counts."""
    merged: _Json = {name: {} for name in _LISTS}
    for path, document in read:
        folder = path.expanduser().absolute().parent
        for name, inner in _LISTS.items():
            entries = document.get(name) or []
            if not isinstance(entries, list):
                raise UsageError(f"{path}: expected a list of {name}, got something else")
            for entry in entries:
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise UsageError(f"{path}: an entry of {name} has no name")
                body = entry.get(inner) or {}
                if not isinstance(body, dict):
                    raise UsageError(f"{path}: expected a mapping as {inner} {entry['name']!r}")
                body = _absolute(body, name, folder)
                merged[name].setdefault(entry["name"], {"name": entry["name"], inner: body})
        if document.get("current-context"):
            merged.setdefault("current-context", document["current-context"])
    return {**merged, **{name: list(merged[name].values()) for name in _LISTS}}


def _absolute(body: _Json, name: str, folder: Path) -> _Json:
    """Return an entry with the files that it names made absolute; empty strings are left out."""
    found = {key: value for key, value in body.items() if value not in ("", None)}
    for key in _FILES.get(name, ()):
        if isinstance(found.get(key), str):
            found[key] = str(folder / found[key])
            if "\0" in found[key]:
                raise UsageError(f"{folder}: {key} holds a NUL: give the name of a file")
    plugin = found.get("exec")
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
        found["exec"] = {**plugin, "command": str(folder / str(plugin["command"]))}
    return found


def _target(merged: _Json, context: str, where: str) -> Target:
    chosen = _entry(merged, "contexts", context, where)
    cluster_name, user_name = chosen.get("cluster"), chosen.get("user")
    if not cluster_name:
        raise UsageError(f"{where}: context {context!r} names no cluster")
    cluster = _entry(merged, "clusters", str(cluster_name), where)
    user = _entry(merged, "users", str(user_name), where) if user_name else {}
    if not cluster.get("server"):
        raise UsageError(f"{where}: cluster {cluster_name!r} has no server")
    _check(user, where)
    try:
        return Target(
            context,
            msgspec.convert(chosen, Context),
            msgspec.convert(cluster, Server),
            msgspec.convert(user, User),
            where,
            exec_spec(user["exec"], cluster, where) if "exec" in user else None,
        )
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: context {context!r} cannot be used: {error}") from None


def _entry(merged: _Json, name: str, wanted: str, where: str) -> _Json:
    for entry in merged[name]:
        if entry["name"] == wanted:
            found: _Json = entry[_LISTS[name]]
            return found
    names = ", ".join(sorted(str(entry["name"]) for entry in merged[name])) or "none"
    raise UsageError(f"{where}: no {_LISTS[name]} {wanted!r}; there are: {names}")


def _check(user: _Json, where: str) -> None:
    if {"as", "as-uid", "as-groups", "as-user-extra"} & user.keys():
        raise UsageError(
            f"{where}: the user acts for another (as), which is not supported: log in as that one"
        )
    for kind in ("client-certificate", "client-key"):
        other = "client-key" if kind == "client-certificate" else "client-certificate"
        if (kind in user or f"{kind}-data" in user) and not (
            other in user or f"{other}-data" in user
        ):
            raise UsageError(f"{where}: the user has a {kind}, but no {other}")
