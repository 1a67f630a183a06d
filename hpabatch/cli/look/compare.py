"""`hpabatch compare`: HPAs that decide differently under another version or other manifests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.manifests import load_hpas
from hpabatch.cli.options import ExitCodeOption, HistoryArgument, Output, OutputOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import say, tell
from hpabatch.engine.compare.request import CompareRequest
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNREADABLE
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from hpabatch.engine.fleet.parameters import ReplayParameters
    from hpabatch.model.objects.hpa import HPA


@command(app)
def compare(
    history: HistoryArgument,
    request: CompareRequest,
    top: Annotated[
        int,
        typer.Option(
            "--top", min=0, max=1_000_000, help="Number of HPAs that table and Markdown name."
        ),
    ] = 20,
    exit_code: ExitCodeOption = False,
    output: OutputOption = Output.table,
) -> int:
    """Compare what HPAs decide under two Kubernetes versions, or with two sets of manifests.

    Replays a history twice, with the same samples, sizes and instants, and names the HPAs that
    decide differently: since when, how often, by how much, and the switch of the version or the
    field of the spec that makes the first difference (each is tried alone).

    \b
    --k8s 1.32..1.37      the rules of two versions; a side left out is as recorded (..1.37)
    --feature-gates-to    feature gates of the second side only (with or without --k8s)
    --hpas A --hpas B     two sets of manifests; one --hpas: the recorded HPAs against it
    --k8s VERSION         with --hpas: the one version of both

    \b
    A decision differs if the size, the wish to rescale or what failed differs. What is the same for
    another reason (rule, metric, condition) is counted apart; --strict takes it as a difference.
    Sizes are the recorded ones on both sides, so differences do not compound: an upscale that only
    one side wants shows in the ticks in which it wants it. With --simulate either side has the pods
    that its own decisions ask for (see `hpabatch simulate`): differences compound, and the model's
    limits apply. --where is as in `hpabatch replay`, asked of the first side's HPAs.
    docs/versions.md explains every column.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were left out or, with --exit-code,
    decide differently; 2 wins over 3.

    \b
    Examples:
      hpabatch compare history/ --k8s 1.32..1.37
      hpabatch compare history/ --k8s ..1.37 --where "namespace = 'shop'" --output markdown
      hpabatch compare history/ --hpas today/ --hpas proposed/ -o json | jq '.differences[].rule'
      hpabatch compare history/ --feature-gates-to HPAScaleToZero=false
      hpabatch compare history/ --hpas proposed/ --simulate --plant plant.yaml
    """
    from hpabatch.api.comparisons import compare_sides
    from hpabatch.engine.fleet.versions import history_profile
    from hpabatch.history.reader import open_history
    from hpabatch.report.base import label
    from hpabatch.report.compare import Compared

    needed = request.simulate or len(request.hpas) < 2
    source = open_history(history, "replay" if needed else None)
    codes = [EXIT_OK]

    def read(path: str, parameters: ReplayParameters) -> Sequence[HPA] | None:
        profile = history_profile(source, parameters.k8s, parameters.feature_gates)
        hpas, code = load_hpas([path], profile)
        codes.append(code)
        return hpas

    kernel = "simulate_fleet" if request.simulate else "replay_observations"
    with progress_on_stderr(kernel) as progress:
        found = compare_sides(source, request, read, progress)
    tell(found.warnings)
    for item in found.left_out:
        name = label(item.cluster, item.namespace, item.hpa, with_cluster=True)
        say(f"left out ({item.side}): {printable(name)}: {item.reason}")
    show_report(Compared.of(found, top=top, strict=request.strict), output)
    changed = found.decide or (request.strict and found.explain)
    if found.left_out or (exit_code and changed):
        codes.append(EXIT_REFUSED)
    return EXIT_UNREADABLE if EXIT_UNREADABLE in codes else max(codes)
