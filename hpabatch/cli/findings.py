"""Commands that tell what is wrong: findings of a history, of manifests, of a change."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from hpabatch.cli.app import Answer, app, command
from hpabatch.cli.arguments import ExitCodeOption, HistoryArgument, check_inputs, file_option
from hpabatch.cli.manifests import open_with_hpas, valid_hpas
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.talk import say, tell, tell_skipped
from hpabatch.engine.gate.request import GateRequest
from hpabatch.engine.replay.request import ReplayRequest
from hpabatch.errors import EXIT_EXCEEDED, EXIT_REFUSED, EXIT_UNREADABLE, ManifestError
from hpabatch.inputs.request import LintRequest


@command(app, shows=True, faults=True)
def findings(
    history: HistoryArgument,
    request: ReplayRequest,
    exit_code: ExitCodeOption = False,
) -> Answer:
    """Tell what is wrong with the HPAs of a history.

    One row per HPA and finding, the worst first: its id, severity, the sentence with its numbers,
    what to do, and the numbers as JSON. They come from a replay of the history and from the last
    specs alone. docs/findings.md has the catalogue.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were skipped (the others are looked
    at), or with --exit-code there are findings.

    \b
    Examples:
      hpabatch findings history/
      hpabatch findings history/ -n shop -o csv > findings.csv
      hpabatch findings history/ -o json | jq '.[] | select(.severity == "high")'
    """
    with progress_on_stderr("replay_observations") as progress:
        from hpabatch.jobs.replay import plan_of
        from hpabatch.report.findings import findings_in

        progress("loading", 0.0)
        source, manifests, code = open_with_hpas(history, request)
        found = findings_in(plan_of(source, request, manifests), progress)
    tell(found.warnings)
    left_out = tell_skipped(found.skipped)
    return found, code or left_out or (EXIT_REFUSED if exit_code and found.found.height else 0)


@command(app, shows=True, faults=True)
def lint(request: LintRequest, exit_code: ExitCodeOption = False) -> Answer:
    """Tell what is wrong with manifests, without a history.

    Reads manifests as `hpabatch validate` does, and the Deployments and other workloads in the same
    files. Beside what a spec amounts to (`hpabatch analyze`): API versions that are no longer
    served, several HPAs or KEDA and an HPA on one target, selectors that match other pods,
    containers without the request that a utilization is of. docs/findings.md has the catalogue.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were refused (the others are looked
    at), or with --exit-code there are findings; 2 wins over 3.

    \b
    Examples:
      hpabatch lint manifests/
      hpabatch lint manifests/ --exit-code -o csv
      kubectl get hpa -A -o yaml | hpabatch lint -
    """
    from hpabatch.engine.findings.lint import lint as findings_of
    from hpabatch.model.versions import profile_for
    from hpabatch.report.findings import Findings

    profile = profile_for(request.k8s, request.feature_gates)
    if profile.notes:
        say(f"warning: {profile.notes}")
    missing = f"{' '.join(request.paths)}: no valid HPA to look at"
    stdin = _stdin(request.paths)
    checked, code = valid_hpas(request.paths, profile, missing, io.BytesIO(stdin))
    judged = findings_of(checked, request.paths, profile, stdin)
    found = Findings(judged.found, len(checked), {}, ignored=judged.ignored)
    return found, code or (EXIT_REFUSED if exit_code and found.found.height else 0)


def _stdin(paths: Sequence[str]) -> bytes:
    """Return what standard input has, if it is one of some paths."""
    from hpabatch.inputs.manifests import MAX_BYTES

    return sys.stdin.buffer.read(MAX_BYTES + 1) if "-" in paths else b""


def _is_empty(path: str) -> bool:
    """Say whether a path is not there, or a folder that can be read and has no manifest."""
    from hpabatch.inputs.manifests import manifest_files

    if not os.path.isdir(path):
        return not os.path.lexists(path)
    errors: list[OSError] = []
    return next(manifest_files(Path(path), errors.append), None) is None and not errors


@command(app, shows=True, faults=True)
def gate(
    request: GateRequest,
    markdown: Annotated[
        str | None, file_option("--markdown", "File for a comment on a pull request (Markdown).")
    ] = None,
) -> Answer:
    """Tell what a change of manifests does, and fail beyond limits.

    Compares two sets of manifests: which HPAs have other settings, and which findings of
    `hpabatch lint` are new. With --history the changed HPAs are simulated with both, on the same
    work: sizes, costs, saturation. HPAs of which nothing trustworthy can be said are listed apart;
    they fail the gate unless --allow-unknown is given.

    \b
    --fail-on 'saturated_minutes>+10'   10 minutes more than base, of any HPA
    --fail-on 'total:cost>+5%'          5% more than base, of all changed HPAs together
    --fail-on 'at_max_minutes>60'       in head, whatever base has
    --fail-on 'findings_high>+0'        more findings of that severity; needs no history

    Measures are those of `hpabatch simulate`. docs/gate.md has all, and a workflow.

    \b
    Exit codes: 0 passes, 2 something cannot be read or a side has no HPA (--allow-empty), 4 a limit
    is exceeded or an HPA is not known, 3 some HPAs of head were refused.

    \b
    Examples:
      hpabatch gate --base main/ --head pr/ --fail-on 'findings_high>+0'
      hpabatch gate --base main/ --head pr/ --history history/ --fail-on 'saturated_minutes>+10'
      helm template . | hpabatch gate --base main/ --head - --markdown comment.md
    """
    with progress_on_stderr("simulate_fleet") as progress:
        from hpabatch.engine.fleet.versions import history_profile
        from hpabatch.engine.gate.run import Manifested
        from hpabatch.engine.gate.run import gate as gate_of
        from hpabatch.history.files import atomic_path
        from hpabatch.history.reader import open_history
        from hpabatch.inputs.manifests import check_manifests, exit_code, load_manifests
        from hpabatch.model.versions import DEFAULT_K8S, profile_for
        from hpabatch.report.forms import markdown_text
        from hpabatch.report.gate import Gate
        from hpabatch.report.validation import talk_lines

        history, profile = None, profile_for(request.k8s or DEFAULT_K8S, request.feature_gates)
        if request.history is not None:
            history = open_history(request.history, "replay")
            profile = history_profile(history, request.k8s, request.feature_gates)

        if markdown is not None:
            read_from = {
                f"--{n}": set(getattr(request, n)) - {"-"} for n in ("base", "head", "plant")
            }
            prices = () if request.prices is None else (request.prices,)
            check_inputs(markdown, history, {**read_from, "--prices": prices}, "--markdown")

        def read(name: str, paths: Sequence[str]) -> Manifested:
            if request.allow_empty:
                paths = [path for path in paths if path == "-" or not _is_empty(path)]
            stdin = _stdin(paths)
            entries = load_manifests(paths, io.BytesIO(stdin)).entries
            checked = check_manifests(entries, profile)
            for line in talk_lines(checked):
                say(f"{name}: {line}")
            return Manifested(checked, paths, stdin)

        base, head = read("base", request.base), read("head", request.head)
        # Nothing, such as a misspelled folder, would let everything pass.
        for name, side in (("base", base), ("head", head)):
            told = name == "head" and side.unread  # (in the result)
            if not (request.allow_empty or side.hpas() or told):
                raise ManifestError(
                    f"--{name} {' '.join(side.paths)}: expected an HPA, got no valid one; name "
                    "another place, or give --allow-empty"
                )
        found = Gate.of(gate_of(request, base, head, profile, history, progress))
        if markdown is not None:
            with atomic_path(markdown) as temporary:
                temporary.write_text(markdown_text(found))
    tell(found.warnings)
    code = exit_code(head.checked)
    if code != EXIT_UNREADABLE and found.exceeds:
        code = EXIT_EXCEEDED
    return found, code
