"""Live against a real cluster's own controller: `make test-cluster`, no part of `make test`.

A script changes the load of some workloads in namespaces of its own, upstream's controller scales
them, `hpabatch live` decides beside it and records. The API server's audit log says what the
controller saw, when, and what it wrote: both sequences of sizes are compared, and the recording is
replayed at the controller's own instants. `python -m tests.live_cluster --help` has the options.
"""
