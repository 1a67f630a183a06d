"""Recommendations of a folder, for the page: changes with what applies them and takes them back.

They are read from the certificates and patches that `advise` and `recommend --patches` write.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl
import yaml

from hpabatch._json import decode_json
from hpabatch.engine.advise.answer import NONE
from hpabatch.engine.advise.bounds import changes_told
from hpabatch.engine.advise.frames import FORMAT, KIND
from hpabatch.engine.advise.unit import AT_MAX, is_held
from hpabatch.engine.replay.summary import KEY
from hpabatch.errors import UsageError
from hpabatch.history.files import read_small
from hpabatch.jobs.folder import DIGEST
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.printable import listed, printable, printable_json
from hpabatch.model.settings.patch import patch_document, spec_patch
from hpabatch.model.versions import ControllerFlags
from hpabatch.report.numbers import beside
from hpabatch.report.page.series import simulated_of

TRAJECTORIES: Final = "trajectories.parquet"
_PLACES: Final = ("patches", ".", "review")  # of a folder of `advise`, or of patches


def read_advice(
    folder: str, history: Mapping[str, str], to_ms: int
) -> tuple[list[dict[str, Any]], str]:
    """Return the recommendations of a folder, sorted by cluster, namespace and HPA, and a warning.

    A certificate that lies in two places counts once. `history`: the evidence of a replay, which
    ends at `to_ms`.

    Raises:
        UsageError: there are none, a file is damaged, or they are of another history.
    """
    root, found, warning = Path(folder), dict[tuple[str, ...], dict[str, Any]](), ""
    places: dict[tuple[str, ...], Path] = {}
    skipped: dict[tuple[str, ...], str] = {}
    for place in _PLACES:
        for path in sorted((root / place).glob("*.json")):
            told = _certificate(path)
            if told is None:
                continue
            try:
                item = _read(told, root, path)
                key, evidence = tuple(item["key"]), told["evidence"]
            except (KeyError, TypeError, ValueError, AttributeError):
                message = f"--advice: {path} is damaged; write the advice again"
                raise UsageError(message) from None
            warning = warning or check_origin("--advice", folder, evidence, history)
            if found.setdefault(key, item) | {"patch": ""} != item | {"patch": ""}:
                raise UsageError(
                    f"--advice: {places[key]} and {path} are of the same HPA; remove the older one"
                )
            places.setdefault(key, path)
            for *other, reason in told["sweep"]["parameters"].get("skipped", ()):
                skipped[tuple(other)] = reason
    if not found:
        raise UsageError(
            f"--advice {folder}: expected a folder that `hpabatch advise --out` or `hpabatch "
            "recommend --patches` wrote, got one without certificates; name another"
        )
    simulated = _simulated(root / TRAJECTORIES, to_ms)
    for key, reason in skipped.items():
        found.setdefault(key, _NOTHING | {"key": list(key), "reasons": [reason]})
    return [found[key] | {"simulated": simulated.get(key)} for key in sorted(found)], warning


_NOTHING: Final[dict[str, Any]] = {
    "answer": NONE,
    **dict.fromkeys(("changes", "doubts", "surer"), ()),
    **dict.fromkeys(("confidence", "minimize", "currency", "hours", "withheld", "training_blocks")),
    **dict.fromkeys(("saving_pct", "saving_low_pct", "saving_high_pct")),
    **dict.fromkeys(("slo_broken", "is_held_at_max"), False),
    "today": {},
    "after": {},
    "recorded": {},
    "amounts": {},
    **dict.fromkeys(("patch", "apply", "rollback")),
}
"""What there is of an HPA that the advice left out: it has no certificate."""


def _simulated(path: Path, to_ms: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the simulated lines of each HPA that should change; `recommend` writes none."""
    if not path.is_file():
        return {}
    try:
        sizes = pl.read_parquet(path).filter(pl.col("setting").n_unique().over(KEY) > 1)
        parts = sizes.partition_by(KEY, maintain_order=True, as_dict=True)
        return {key: simulated_of(part, to_ms) for key, part in parts.items()}
    except (OSError, pl.exceptions.PolarsError):
        raise UsageError(f"--advice: {path} cannot be read; write the advice again") from None


def check_origin(
    option: str, folder: str, evidence: Mapping[str, str], history: Mapping[str, str]
) -> str:
    """Return a warning if a result is of another state of the history, "" if it is of this one.

    Raises:
        UsageError: not one of its tables is that of the history.
    """
    both = [name for name in history if name.startswith(DIGEST) and name in evidence]
    other = [name.removeprefix(DIGEST) for name in both if evidence[name] != history[name]]
    if other and len(other) == len(both):
        raise UsageError(
            f"{option} {folder} is of another history: not one table is the same; name that "
            "history, or make it again from this one"
        )
    if not other:
        return ""
    return f"{option} is of another state of the history: {listed(other)} changed; make it again"


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
        "recorded": {} if judged is None else _recorded(judged["today"]),
        "withheld": told["withheld"],
        "amounts": told.get("amounts") or {},
        "training_blocks": None if trained is None else trained["blocks"],
        "is_held_at_max": judged is not None
        and is_held(judged["today"]["measures"].get(AT_MAX), judged["hours"]),
        **_files(told, today, wanted, root, path),
    }


def _recorded(today: Mapping[str, Any]) -> dict[str, float]:
    """Return the recorded measures that differ from those of the model of today's setting."""
    measures, recorded = today["measures"], today.get("recorded", {})
    return {k: v for k, v in recorded.items() if beside("", measures.get(k), v, 1)}


def _spec(value: object) -> HPASpec:
    return default_spec(hpa_from_json(json.dumps(value))[0].spec)


def _files(
    told: Mapping[str, Any], today: HPASpec, wanted: HPASpec, root: Path, path: Path
) -> dict[str, Any]:
    """Return the patch, as it was written if it was, and what applies it and takes it back."""
    if told["patch"] is None:
        return {"patch": None, "apply": None, "rollback": None}
    name, namespace = told["hpa"], told["namespace"]
    version = told["patch"]["apiVersion"]
    back = patch_document(name, namespace, spec_patch(wanted, today), version)
    kind = f"horizontalpodautoscalers.{version.rpartition('/')[2]}.autoscaling"
    words = ("kubectl", "patch", kind, name, "-n", namespace, "--type", "strategic", "--patch")

    def command(patch: object) -> str:
        # (not --patch-file: the page is read where the folder is not, and of low confidence none
        # is written)
        text = printable_json(json.dumps(patch, separators=(",", ":")))
        return shlex.join([*map(printable, words), text])

    files = (root / place / f"{path.stem}.yaml" for place in _PLACES)
    written = next(
        (read_small(file).decode("utf-8", "replace") for file in files if file.is_file()), ""
    )
    return {
        "patch": written or yaml.safe_dump(told["patch"], sort_keys=False),
        "apply": command(told["patch"]),
        "rollback": command(back),
    }
