"""The program with a shorter wait of its probe, another clock, and a record of its own passes."""

from __future__ import annotations

import sys
import time


def main(wait_s: str, skew_s: str, store: str, arguments: list[str]) -> None:
    """Run the program.

    The package has no switch for any of it: only who replaces a function of it can shorten the
    wait, or record what the applying loop itself sees (`store`; "": nothing).
    """
    ahead_ns, clock_ns, clock = int(float(skew_s) * 1e9), time.time_ns, time.time
    time.time_ns = lambda: clock_ns() + ahead_ns
    time.time = lambda: clock() + float(skew_s)

    from hpabatch.cli import main as run
    from hpabatch.live.apply import setup

    vars(setup)["silence_s"] = lambda period_s: float(wait_s)
    if store:
        from hpabatch.live.loop.request import LiveRequest

        setattr(LiveRequest, "store", property(lambda request: store))  # noqa: B010
    sys.argv = ["hpabatch", *arguments]
    run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
