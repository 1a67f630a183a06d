"""Records a made-up cluster until it is killed; run as a process of its own.

    python -m tests.live.recording_process FOLDER SEED [FSIZE]

It prints the instant of each pass that is in the store for certain. With FSIZE no file may become
longer than that from pass 5 to pass 10: that is what a full disk looks like.
"""

from __future__ import annotations

import resource
import sys

from tests.live.recorded import K8S, Recorded, flushed


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    folder, seed = sys.argv[1], int(sys.argv[2])
    size = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    recorded = Recorded(seed, K8S, folder, say=lambda text: tell(f"said {text}"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for number in range(15 if size else 100_000):
        if size and number in (5, 10):
            soft = size if number == 5 else limits[0]
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, limits[1]))
        recorded.one_pass()
        # While the disk is full a second's waiting shows that nothing comes of it.
        if flushed(recorded.recorder, 1.0 if size and 5 <= number < 10 else 60.0):
            tell(f"{recorded.passes[-1]}")
    tell(f"closed {recorded.recorder.close()}")


if __name__ == "__main__":
    main()
