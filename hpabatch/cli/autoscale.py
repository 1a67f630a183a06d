"""`hpabatch autoscale`: the manifest that `kubectl autoscale` would create."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app, command
from hpabatch.cli.stdout import send_json, send_text
from hpabatch.cli.talk import say
from hpabatch.errors import ManifestError, RefusedError
from hpabatch.history.files import open_regular
from hpabatch.model.objects.autoscale import AutoscaleRequest
from hpabatch.model.versions import DEFAULT_K8S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hpabatch.model.objects.autoscale import Target
    from hpabatch.model.objects.hpa import HPA

_MAX_BYTES = 64 * 2**20


class Form(StrEnum):
    """The form of the manifest."""

    yaml = "yaml"
    json = "json"


@command(app)
def autoscale(
    request: AutoscaleRequest,
    output: Annotated[Form, typer.Option("--output", "-o", help="Form of the manifest.")] = (
        Form.yaml
    ),
) -> None:
    """Print the HPA that `kubectl autoscale` would create.

    Nothing is asked of a cluster. The target is given as TYPE/NAME, as TYPE NAME or by its manifest
    (-f), and is a Deployment, ReplicaSet, StatefulSet or ReplicationController by any name that
    kubectl takes. Several targets give several HPAs. The HPA is checked as the API server would.

    --cpu and --memory take a share of the request (70%), a quantity per pod (500m, 1Gi), or a
    number, which is in milli-cpu or MiB. With neither, the server takes cpu at 80%. A --min of 0 or
    less is not sent, and the server takes 1: an HPA that scales to zero is written by hand.

    \b
    Examples:
      hpabatch autoscale deployment/web --cpu 70% --min 2 --max 20 > hpa.yaml
      hpabatch autoscale sts db --max 5 --cpu 500m --memory 2Gi -n shop
      hpabatch autoscale -f deployment.yaml --max 10 --cpu 60% | hpabatch validate -
    """
    from hpabatch.model.objects.autoscale import autoscale as make
    from hpabatch.model.objects.autoscale import targets_of_arguments
    from hpabatch.report.kubectl import json_manifests, yaml_manifests

    if request.filename:
        targets = [t for file in request.filename for t in _targets_of(file, request.namespace)]
    else:
        targets = targets_of_arguments(request.target, request.namespace)
    hpas = make(targets, request)
    _refuse_invalid(hpas)
    if request.min_replicas is not None and request.min_replicas <= 0:
        say(f"--min {request.min_replicas} is not sent: the API server takes 1")
    if output is Form.json:
        send_json(json_manifests(hpas))
    else:
        send_text(yaml_manifests(hpas))


def _targets_of(file: str, namespace: str) -> list[Target]:
    """Return the targets that the manifests of a file are.

    Raises:
        ManifestError: it cannot be read, or holds nothing.
        RefusedError: one of them cannot be scaled.
    """
    from hpabatch.model.objects.autoscale import target_of_document

    found: list[Target] = []
    for document, line in _documents(file):
        try:
            found.append(target_of_document(document, namespace))
        except RefusedError as error:
            raise RefusedError(f"{file}:{line}: {error}") from None
    if not found:
        raise ManifestError(f"{file}: no objects passed to autoscale; name the target's manifest")
    return found


def _documents(file: str) -> Iterator[tuple[Mapping[str, object], int]]:
    """Yield the objects of a manifest file and the lines on which they start.

    Raises:
        ManifestError: the file or a document cannot be read.
    """
    from collections.abc import Mapping

    from hpabatch.inputs.kubernetes_yaml import start_line
    from hpabatch.inputs.manifest_documents import (
        DocumentError,
        expand,
        parse_documents,
        split_documents,
    )

    for piece, offset in split_documents(_text_of(file)):
        try:
            for document in parse_documents(piece):
                if document.value is None:
                    continue
                if not isinstance(document.value, Mapping | list):
                    raise DocumentError("not a manifest: expected a mapping")
                for value, node in expand(document.value, document.node):
                    if isinstance(value, str):
                        raise DocumentError(value)
                    yield value, start_line(node) + offset + 1
        except DocumentError as error:
            raise ManifestError(f"{file}: {error.describe(offset)}") from None


def _text_of(file: str) -> str:
    try:
        if file == "-":
            if sys.stdin is None:
                raise ManifestError("-f -: standard input is closed; name a file")
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with open_regular(file, pipes=True) as stream:
                data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ManifestError(
                f"{file}: larger than {_MAX_BYTES // 2**20} MiB; name a smaller manifest"
            )
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(f"{file}: not UTF-8 text: {error.reason}; write it as that") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise ManifestError(f"{file}: cannot be read: {reason}; name a manifest") from None


def _refuse_invalid(hpas: list[HPA]) -> None:
    """Refuse what the API server would refuse (RefusedError, with its complaints)."""
    from hpabatch.model.objects.defaults import default_hpa
    from hpabatch.model.objects.validate import validate_hpa
    from hpabatch.model.versions import profile_for

    profile = profile_for(DEFAULT_K8S)
    for hpa in hpas:
        complaints = [str(error) for error in validate_hpa(default_hpa(hpa), profile)]
        if complaints:
            raise RefusedError(
                f"the API server would refuse HPA {hpa.name}: {'; '.join(complaints)}"
            )
