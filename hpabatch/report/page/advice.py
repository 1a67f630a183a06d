"""Recommendations of a folder, for the page: changes with what applies them and takes them back.

They are read from the certificates and patches that `advise` and `recommend --patches` write.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from hpabatch._json import decode_json
from hpabatch.engine.advise.bounds import changes_told
from hpabatch.engine.advise.frames import FORMAT, KIND
from hpabatch.errors import UsageError
from hpabatch.history.files import read_small
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.printable import printable
from hpabatch.model.settings.patch import patch_document, spec_patch
from hpabatch.model.versions import ControllerFlags

MEASURES: Final = ("cost", "core_hours", "pod_hours")
_PLACES: Final = ("patches", ".", "review")


def read_advice(folder: str) -> list[dict[str, Any]]:
    """Return the recommendations of a folder, sorted by cluster, namespace and HPA.

    Raises:
        UsageError: there are none, or a file is damaged.
    """
    root = Path(folder)
    found = []
    for place in _PLACES:
        for path in sorted((root / place).glob("*.json")):
            told = _certificate(path)
            if told is not None:
                found.append(_recommendation(told, root, path))
    if not found:
        raise UsageError(
            f"--advice {folder}: expected a folder that `hpabatch advise --out` or `hpabatch "
            "recommend --patches` wrote, got one without certificates; name another"
        )
    return sorted(found, key=lambda item: item["key"])


def _certificate(path: Path) -> Mapping[str, Any] | None:
    """Return a certificate, None if the file is something else."""
    try:
        told = decode_json(read_small(path), dict[str, Any])
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"--advice: {path} cannot be read: {reason}; name another") from None
    except ValueError:
        raise UsageError(f"--advice: {path} is no valid JSON; write the advice again") from None
    if told.get("kind") != KIND:
        return None
    if told.get("format") != FORMAT:
        raise UsageError(f"--advice: {path} is of another version of hpabatch; write it again")
    return told


def _recommendation(told: Mapping[str, Any], root: Path, path: Path) -> dict[str, Any]:
    try:
        return _read(told, root, path)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(f"--advice: {path} is damaged; write the advice again") from None


def _read(told: Mapping[str, Any], root: Path, path: Path) -> dict[str, Any]:
    spec, judging = told["spec"], told["judging"]
    today = _spec(spec["today"])
    wanted = today if spec["recommended"] is None else _spec(spec["recommended"])
    judged, trained, sure = (
        (None, None, None)
        if judging is None
        else (judging[part] for part in ("judged", "training", "resampled"))
    )
    return {
        "key": [told["cluster"], told["namespace"], told["hpa"]],
        "answer": told["answer"],
        "confidence": told["confidence"],
        "changes": changes_told(today, wanted, ControllerFlags())
        if told["answer"] == "change"
        else [],
        "reasons": told["reasons"],
        "doubts": [doubt["why"] for doubt in told["doubts"]],
        "surer": [doubt["remedy"] for doubt in told["doubts"] if doubt["remedy"]],
        "minimize": told["parameters"]["minimize"],
        "currency": told["sweep"]["parameters"].get("currency"),
        "saving_pct": None if judged is None else judged["saving_pct"],
        "saving_low_pct": None if sure is None else sure["low_pct"],
        "saving_high_pct": None if sure is None else sure["high_pct"],
        "slo_broken": any(p is not None and not p["today"]["slo_holds"] for p in (trained, judged)),
        "hours": None if judged is None else judged["hours"],
        "today": {} if judged is None else judged["today"]["measures"],
        "after": {} if judged is None else judged["considered"]["measures"],
        "withheld": told["withheld"],
        **_files(told, today, wanted, root, path),
    }


def _spec(value: object) -> HPASpec:
    return default_spec(hpa_from_json(json.dumps(value))[0].spec)


def _files(
    told: Mapping[str, Any], today: HPASpec, wanted: HPASpec, root: Path, path: Path
) -> dict[str, Any]:
    """Return the patch as it was written, and the commands that apply it and take it back."""
    if told["patch"] is None:
        return {"patch": None, "apply": None, "rollback": None}
    text, place = next(_written(root, path.stem), ("", Path(f"{path.stem}.yaml")))
    name, namespace = told["hpa"], told["namespace"]
    version = told["patch"]["apiVersion"]
    back = patch_document(name, namespace, spec_patch(wanted, today), version)
    kind = f"horizontalpodautoscalers.{version.rpartition('/')[2]}.autoscaling"
    words = ("kubectl", "patch", kind, name, "-n", namespace, "--type", "strategic")
    command = shlex.join(map(printable, words))
    file = shlex.quote(printable(str(place)))
    undo = shlex.quote(json.dumps(back, separators=(",", ":")))
    return {
        "patch": text or yaml.safe_dump(told["patch"], sort_keys=False),
        "apply": f"{command} --patch-file {file}",
        "rollback": f"{command} --patch {undo}",
    }


def _written(root: Path, stem: str) -> Iterator[tuple[str, Path]]:
    for place in _PLACES:
        path = root / place / f"{stem}.yaml"
        if path.is_file():
            yield read_small(path).decode("utf-8", "replace"), path
