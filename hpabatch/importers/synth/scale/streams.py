"""Random streams of a synthetic fleet: one for each purpose, day and number."""

from __future__ import annotations

import hashlib
from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a random stream is for; numbers are part of the data and never change."""

    profile = 1
    demand = 2
    trouble = 3
    lives = 4
    traits = 5
    usage = 6
    custom = 7
    signal = 8


class Streams:
    """All random numbers of one workload, each at an address of its own.

    A Philox generator is a function of key and counter. The key comes from the seed and the
    workload's name, the counter from the purpose, a number and the day. So what is drawn for one
    pod and day depends on no other draw, whatever is generated before, beside or not at all.
    """

    def __init__(self, seed: int, identity: str) -> None:
        """Derive the key of a workload, e.g. `synthetic/ns-0001/app-00025`."""
        digest = hashlib.sha256(identity.encode()).digest()
        words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
        low, high = np.random.SeedSequence([seed, *words]).generate_state(2, np.uint64)
        self._key = int(low) | int(high) << 64

    def open(self, purpose: Purpose, day: int = 0, number: int = 0) -> np.random.Generator:
        """Return the generator at an address."""
        counter = (day << 192) | (number << 128) | (int(purpose) << 64)
        return np.random.Generator(np.random.Philox(key=self._key, counter=counter))
