"""The program with a shorter wait of its probe, and a record of its own passes."""

from __future__ import annotations

import sys

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
        setattr(LiveRequest, "store", property(lambda request: store))  # noqa: B010
    sys.argv = ["hpabatch", *arguments]
    run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
