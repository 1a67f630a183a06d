"""HPAs as the manifests that `kubectl -o yaml` and `-o json` print."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence

import yaml

from hpabatch.inputs.kubernetes_yaml import plain_value
from hpabatch.model.objects.encode import encode_hpa
from hpabatch.model.objects.encode_status import encode_status
from hpabatch.model.objects.hpa import HPA

Encode = Callable[[HPA], dict[str, object]]


class _Dumper(yaml.SafeDumper):
    """Quotes what Kubernetes' YAML reader would not take for a string, such as `1e3` or `on`."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None if isinstance(plain_value(text), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def live_document(hpa: HPA) -> dict[str, object]:
    """Return an HPA with its status and creation time, as the API server shows it."""
    document = encode_hpa(hpa)
    if hpa.creation_timestamp is not None:
        metadata = document["metadata"]
        assert isinstance(metadata, dict)
        metadata["creationTimestamp"] = hpa.creation_timestamp
    return document | {"status": encode_status(hpa.status)}


def yaml_manifests(hpas: Sequence[HPA], encode: Encode = encode_hpa) -> str:
    """Return HPAs as YAML documents with `---` between them; fields in alphabetical order."""
    documents = (yaml.dump(encode(hpa), Dumper=_Dumper, width=math.inf) for hpa in hpas)
    return "---\n".join(documents)


def json_manifests(hpas: Sequence[HPA], encode: Encode = encode_hpa) -> str:
    """Return an HPA, or a List of several, as JSON; fields in the order of the API's types."""
    return json.dumps(list_document(hpas, encode), indent=4, ensure_ascii=False) + "\n"


def list_document(hpas: Sequence[HPA], encode: Encode = encode_hpa) -> dict[str, object]:
    """Return the manifest of an HPA, or a List of several."""
    items = [_typed_first(encode(hpa)) for hpa in hpas]
    if len(items) == 1:
        return items[0]
    return {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}


def _typed_first(document: dict[str, object]) -> dict[str, object]:
    return {"kind": document["kind"], "apiVersion": document["apiVersion"], **document}
