"""The first, plain alignment: what the kernels must agree with.

Right rather than fast: everything in memory, a pass over every pod's ticks, every time looked up.
It shares with the engine what it does not check: candidates, specs as columns, the replay kernel.
"""
