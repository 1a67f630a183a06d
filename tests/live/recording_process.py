"""Records a made-up cluster until it is killed; run as a process of its own.

    python -m tests.live.recording_process FOLDER SEED [FSIZE]

It prints the instant of each pass that is in the store for certain. With FSIZE no file may become
longer than that from pass 5 to pass 10: that is what a full disk looks like.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from hpabatch.live.record.recorder import Recorder
from tests.live.cluster_game import CLUSTER, Game


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    size = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    game = Game(seed)
    recorder = Recorder(
        folder,
        CLUSTER,
        clock=lambda: game.now_ms,
        segment_s=1e9,
        say=lambda text: tell(f"said {text}"),
    )
    game.stir(20)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for number in range(15 if size else 100_000):
        if size and number in (5, 10):
            soft = size if number == 5 else limits[0]
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, limits[1]))
        picture = game.play(recorder, started=number == 0)
        game.stir(4)
        # While the disk is full a second's waiting shows that nothing comes of it.
        if recorder.flush(1.0 if size and 5 <= number < 10 else 60.0):
            tell(f"{picture.now_ms}")
    tell(f"closed {recorder.close()}")


if __name__ == "__main__":
    main()
