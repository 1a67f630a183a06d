"""The program with a shorter wait of its probe, and a record of its own passes."""

from __future__ import annotations

import sys

from hpabatch.cli import live_run
from hpabatch.cli import main as run
from hpabatch.live.apply import setup
from hpabatch.live.loop.request import LiveRequest

SILENCE_S = 2.0


def main(store: str, arguments: list[str]) -> None:
    """Run the program.

    The package has no switch for any of it: only who replaces a function of it can shorten the
    wait, or record what the applying loop itself sees (`store`; "": nothing).
    """
    vars(setup)["silence_s"] = lambda period_s: SILENCE_S
    if store:
        original = live_run.run_live

        def recording(request: LiveRequest, form: str = "table", *, compares: bool = True) -> None:
            object.__setattr__(request, "record", store)  # (--apply takes no --record)
            original(request, form, compares=compares)

        vars(live_run)["run_live"] = recording
    sys.argv = ["hpabatch", *arguments]
    run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
