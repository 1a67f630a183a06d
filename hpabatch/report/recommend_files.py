"""The files of recommendations: patches with their evidence as comments, and certificates."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from hpabatch.engine.advise.frames import amounts, certificate
from hpabatch.engine.advise.objective import saving_told
from hpabatch.engine.advise.run import Recommendation, Recommendations
from hpabatch.engine.advise.unit import AT_MAX, is_held
from hpabatch.inputs.kubernetes_yaml import plain_value
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.printable import printable_line
from hpabatch.model.settings.patch import metric_name
from hpabatch.report.numbers import beside

INDEX: Final = "recommendations.json"
MANIFESTS: Final = "manifests"
_LONGEST_NAME: Final = 200  # of 255, so that temporary names fit too
_FEW_BLOCKS: Final = 8  # resamples of fewer training blocks are few different ones
_SHOWN: Final = (
    "cost",
    "pod_hours",
    "saturated_minutes",
    "above_100_minutes",
    "unserved",
    "waiting",
    "short_pod_hours",
    "rescales",
    "at_max_minutes",
)

_DEVICE: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])\.", re.IGNORECASE)
_DOTLESS: Final = re.compile("[a-z0-9][a-z0-9_-]*")
_STEM: Final = re.compile(rf"(?!{_DEVICE.pattern})[a-z0-9._-]{{1,{_LONGEST_NAME}}}")
_PLAIN: Final = re.compile(r"[A-Za-z_/][\w./-]*", re.ASCII)


class _Dumper(yaml.SafeDumper):
    """Quotes every string that Kubernetes' YAML reader might not take for one, `1e3` or `on`."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    plain = _PLAIN.fullmatch(text) is not None and isinstance(plain_value(text), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, None if plain else '"')


_Dumper.add_representer(str, _represent_text)


def recommendation_files(
    found: Recommendations, patches: str = "patches"
) -> tuple[dict[str, str], dict[str, str]]:
    """Return by name the files of all recommendations, and the patches to be reviewed.

    The former are a certificate each, and patches; they go to the folder `patches`, the others to
    one beside it.
    """
    many = len({item.key[0] for item in found.items}) > 1
    files: dict[str, str] = {}
    review: dict[str, str] = {}
    written = {item.key for item in found.written()}
    reviewed = {item.key for item in found.reviewed()}
    own = amounts(found)
    for item in found.items:
        stem = file_stem(item, with_cluster=many)
        told = certificate(item, found, own[item.key])
        files[f"{stem}.json"] = json.dumps(told, indent=2, allow_nan=False) + "\n"
        if item.key in written and not item.withheld:
            files[f"{stem}.yaml"] = patch_yaml(item, found, told, stem)
        elif item.key in reviewed and not item.withheld:
            review[f"{stem}.yaml"] = patch_yaml(item, found, told, stem, f"../{patches}/")
    return files, review


def index_file(found: Recommendations, names: Sequence[str]) -> str:
    """Return the index of the files, by which a later run recognizes them."""
    answers = [item.answer for item in found.items]
    told = {
        "kind": "hpabatch recommendations",
        "format": 1,
        "goal": str(found.options.goal),
        "answers": {answer: answers.count(answer) for answer in sorted(set(answers))},
        "files": sorted(names),
    }
    return json.dumps(told, indent=2) + "\n"


def file_stem(item: Recommendation, *, with_cluster: bool = False) -> str:
    """Return `namespace.hpa`, with the cluster in front where there are several.

    A digest is appended to names that Kubernetes does not allow, and to those that some file
    system takes for another name, for a device or for too long.
    """
    cluster, namespace, hpa = item.key
    parts = (cluster, namespace, hpa) if with_cluster else (namespace, hpa)
    stem = ".".join(parts)
    if all(map(_DOTLESS.fullmatch, parts[:-1])) and _STEM.fullmatch(stem):
        return stem
    digest = hashlib.sha256(json.dumps(item.key).encode()).hexdigest()[:12]
    safe = re.sub("[^A-Za-z0-9._-]", "_", stem)[:_LONGEST_NAME]
    return f"{'' if safe[:1].isalnum() and not _DEVICE.match(safe) else '_'}{safe}-{digest}"


def patch_yaml(
    item: Recommendation,
    found: Recommendations,
    told: Mapping[str, Any],
    stem: str,
    certificates: str = "",
) -> str:
    """Return a patch as YAML, its doubts and its evidence before it as comments."""
    lines = (*_comments(item, found, told, stem), f"everything: {certificates}{stem}.json")
    comments = [printable_line(line) for line in lines]
    body = yaml.dump(told["patch"], Dumper=_Dumper, width=math.inf, sort_keys=False)
    return "".join(f"# {line}".rstrip() + "\n" for line in comments) + body


def _comments(
    item: Recommendation, found: Recommendations, told: Mapping[str, Any], stem: str
) -> Iterator[str]:
    _, namespace, hpa = item.key
    version = found.patch_version.rpartition("/")[2]
    yield f"{namespace}/{hpa}: {found.changes(item)}"
    yield f"confidence: {item.confidence}"
    yield from (f"doubt: {doubt.long}" for doubt in item.doubts)
    yield (
        f"apply: kubectl patch horizontalpodautoscalers.{version}.autoscaling {shlex.quote(hpa)} "
        f"-n {shlex.quote(namespace)} --type strategic --patch-file {stem}.yaml"
    )
    yield ""
    yield f"asked for: {found.options.goal}"
    yield from (f"why: {reason}" for reason in item.reasons)
    yield from (f"note: {note}" for note in item.notes)
    yield from _whole_lists(item)
    judging = told["judging"]
    unit = found.result.parameters["block"]["unit"]
    yield ""
    for part, words in (("training", "chosen on"), ("judged", "judged on")):
        there = judging[part]
        blocks = f"{there['blocks']} {unit}{'s' * (there['blocks'] != 1)}"
        yield f"{words} {blocks} from {there['from']}:"
        yield from _measure_lines(there)
        if there["saving_pct"] is not None:
            of = f", of {item.unit}" if len(judging["members"]) > 1 else ""
            yield f"  {_saving([there['saving_pct']], told)}{of}"
    yield from _sureness(judging, unit, told)
    yield ""
    yield from _evidence(told)


def _whole_lists(item: Recommendation) -> Iterator[str]:
    """Yield which lists the patch replaces as a whole, and what of them is as before."""
    assert item.wanted is not None
    if "metrics" in item.patch:
        was = default_spec(item.today).metrics
        same = [metric_name(one) for one in item.wanted.metrics if one in was]
        changed = [metric_name(one) for one in item.wanted.metrics if one not in was]
        parts = [f"changed {', '.join(changed)}"] if changed else []
        parts += [f"as before {', '.join(same)}"] if same else []
        yield f"replaces the whole list spec.metrics: {'; '.join(parts)}"
    for way, rules in _parts(item.patch.get("behavior")):
        if "policies" in rules:
            yield f"replaces the whole list spec.behavior.{way}.policies"


def _parts(value: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the directions of a behavior."""
    for way, rules in value.items() if isinstance(value, Mapping) else ():
        if isinstance(rules, Mapping):
            yield way, rules


def _measure_lines(there: Mapping[str, Any]) -> Iterator[str]:
    today, wanted = there["today"], there["considered"]
    yield f"  {'':24}{'today (recorded)':>22}{'this':>14}"
    for name in _SHOWN:
        before, after = today["measures"].get(name), wanted["measures"].get(name)
        if before is not None and after is not None:
            seen = today["recorded"].get(name)
            yield f"  {name:24}{beside(f'{before:,.2f}', before, seen, 2):>22}{after:>14,.2f}"
    for old, new in zip(today["slos"], wanted["slos"], strict=True):
        values = [f"{slo['worst']:.4g}" if slo["worst"] is not None else "?" for slo in (old, new)]
        yield f"  SLO {old['slo']}: worst {' -> '.join(values)} {new['unit']}"


def _saving(ends: Sequence[float], told: Mapping[str, Any]) -> str:
    judged = told["judging"]["judged"]
    is_held_at_max = is_held(judged["today"]["measures"].get(AT_MAX), judged["hours"])
    minimize = told["parameters"]["minimize"]
    return saving_told(ends, minimize, is_lower_bound=is_held_at_max)


def _sureness(judging: Mapping[str, Any], unit: str, told: Mapping[str, Any]) -> Iterator[str]:
    sure = judging["resampled"]
    if sure is None:
        yield f"uncertainty: not known, with one training {unit}"
    elif sure["low_pct"] is not None:
        few = len(judging["folds"]) + 1 < _FEW_BLOCKS
        yield (
            f"uncertainty: over {sure['resamples']} resamples of the training {unit}s "
            f"{_saving([sure['low_pct'], sure['high_pct']], told)}, and better than today's in "
            f"{sure['better_share']:.0%}" + (f" (so few {unit}s say little)" if few else "")
        )
    changed = [fold for fold in judging["folds"] if fold["better"] is not None]
    if changed:
        better = sum(fold["better"] for fold in changed)
        of = f"{better} of {len(changed)} {unit}s"
        yield f"walk-forward: the choice of the time beat today's in {of}"


def _evidence(told: Mapping[str, Any]) -> Iterator[str]:
    evidence, scores = told["evidence"], told["scores"]
    k8s = evidence.get("k8s", "?")
    yield f"rules: Kubernetes {k8s}, {evidence.get('k8s_evidence', 'unknown evidence')}"
    skill, explained = scores["plant_skill"], scores["controller_explained_share"]
    parts = (
        f"model skill {skill:.2f} (1: perfect)" if skill is not None else "",
        f"stated settings: {scores['controller_answer']}" if scores["controller_answer"] else "",
        f"{explained:.0%} of the held changes explained, above chance"
        if explained is not None
        else "",
    )
    yield f"fidelity: {', '.join(filter(None, parts)) or 'not measured'}"
    for name in ("ratio", "lens"):
        if name in evidence:
            yield f"{name}: {evidence[name]}"
    yield f"made by hpabatch {told['hpabatch']} from sweep sha256 {told['sweep']['sha256'] or '?'}"
