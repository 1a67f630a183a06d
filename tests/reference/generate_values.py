"""Random building blocks shared by the generators: quantities, selectors, metrics, containers."""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]

# Strings whose MilliValue overflows, comes out as 0, or lies next to the limits.
INT64_EDGES = (
    "9223372036854775807",
    "-9223372036854775808",
    "8Ei",
    "7Ei",
    "1e18",
    "1E",
    "1000P",
    "1e15",
    "9223372036854775",
    "9223372036854776",
    "9007199254740993",
    "9223372036854775807m",
    "4611686018427387904m",
    "9007199254740993m",
    "92233720368547759m",
    "92233720368547758k",
    "999999999999999999",
)

_CONDITIONS_FAULTY: tuple[Json, ...] = (
    {"matchExpressions": [{"key": "queue", "operator": "Near", "values": ["a"]}]},
    {"matchExpressions": [{"key": "queue", "operator": "In"}]},
    {"matchExpressions": [{"key": "queue", "operator": "NotIn", "values": []}]},
    {"matchExpressions": [{"key": "queue", "operator": "Exists", "values": ["a"]}]},
    {"matchLabels": {"queue": "not a value"}},
    {"matchLabels": {"-queue": "a"}},
    {"matchLabels": {"queue": "a", "Prefix.Upper/zone": "b"}},
    {"matchExpressions": [{"key": "/queue", "operator": "In", "values": ["a b", "a b", "-"]}]},
    {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist", "values": ["_"]}]},
    {"matchExpressions": [{"key": "zone", "operator": "Exists"}, {"key": "zone", "operator": ""}]},
    {"matchLabels": {"too/many/parts": "a"}},
    {"matchLabels": {"queue": "a" * 64}},
)
_CONDITIONS_GOOD: tuple[Json, ...] = (
    {},
    {"matchLabels": {"queue": "worker_tasks"}},
    {"matchLabels": {"zone": "b", "queue": "worker", "app.example.com/tier": "x.y"}},
    {"matchExpressions": [{"key": "queue", "operator": "In", "values": ["a", "b"]}]},
    {
        "matchLabels": {"queue": "a"},
        "matchExpressions": [
            {"key": "zone", "operator": "NotIn", "values": ["c"]},
            {"key": "app", "operator": "Exists"},
            {"key": "old", "operator": "DoesNotExist"},
        ],
    },
)

_BAD_SCALE_SELECTORS = (
    "",
    "",
    "app=web,!",
    "cheddar cheese in (a",
    "app in (web",
    "!k=v",
    "a=b,,c",
    "app=web web",
    "app in ((web)",
    "app in web",
    "app==web,=x",
    "app>two",
    "app=we@b",
    "-app=web",
    "app in (w@b,we@)",
    "Example.com/app",
    "%d!x",
    "too/many/parts=web",
    f"app={'a' * 64}",
)

ERROR_TEXTS = (
    "the server is currently unable to handle the request (get pods.metrics.k8s.io)",
    "the server could not find the requested resource (get pods.metrics.k8s.io)",
    "no custom metrics API (custom.metrics.k8s.io) registered",
    "context deadline exceeded",
    "etcdserver: request timed out",
    'admission webhook "limits.example.com" denied the request: at most 50% of quota',
    'Get "https://10.96.0.1:443/apis": dial tcp 10.96.0.1:443: connect: connection refused',
    'deployments.apps "web" not found',
    "a first line\nand a second, naïve one: 100%",
    "the quota of %2Fnamespaces%2Fprod is used up to 100%.",
)


def error_text(rng: random.Random) -> str:
    """Draw what an API call may fail with."""
    return rng.choice(ERROR_TEXTS)


def bad_scale_selector(rng: random.Random) -> str:
    """Draw a selector that a scale must not have: empty, or with an error."""
    return rng.choice(_BAD_SCALE_SELECTORS)


def chance(rng: random.Random, probability: float) -> bool:
    """Draw True with this probability."""
    return rng.random() < probability


def plain_quantity(milli: int) -> str:
    """Write a milli value in the usual way."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def odd_quantity(rng: random.Random, milli: int) -> str:
    """Write a milli value exactly, or off by less than one milli, in an unusual way."""
    sign = "-" if milli < 0 else ""
    size = abs(milli)
    forms = [
        f"{sign}{size}m",
        f"{sign}{size * 1000}u",
        f"{sign}{size * 1_000_000}n",
        f"{sign}{size}e-3",
        f"{sign}{size}E-3",
        f"{sign}{size // 1000}.{size % 1000:03d}",
        f"{sign}0{size}.0m",
        f"{sign}{size * 1000 + rng.randint(0, 999)}u",
        f"{sign}{size * 1_000_000 + rng.randint(0, 999_999)}n",
    ]
    if size % 1_000_000 == 0:
        forms += [f"{sign}{size // 1_000_000}k", f"{sign}{size // 1_000_000}e3"]
    if size % 1_024_000 == 0:
        forms += [f"{sign}{size // 1_024_000}Ki"] * 3
    if size % 512_000 == 0:
        forms.append(f"{sign}{size // 1_024_000}.{'5' if size % 1_024_000 else '0'}Ki")
    return rng.choice(forms)


def any_quantity(rng: random.Random, milli: int, edge: bool = False) -> str:
    """Write a milli value, mostly in the usual way; with ``edge`` often replace it altogether."""
    if edge and chance(rng, 0.3):
        return rng.choice(INT64_EDGES)
    return odd_quantity(rng, milli) if chance(rng, 0.15) else plain_quantity(milli)


def tolerance_text(rng: random.Random) -> str:
    """Draw a tolerance as a behavior has it."""
    return rng.choice(
        ["0", "1m", "10m", "50m", "100m", "0.1", "0.3", "300m", "500m", "1", "1500m", "50000u"]
    )


def metric_identifier(rng: random.Random, name: str, faulty: float = 0.04) -> Json:
    """Draw a metric name with an optional selector, which is sometimes not convertible."""
    identifier: Json = {"name": name}
    draw = rng.random()
    if draw < faulty:
        identifier["selector"] = rng.choice(_CONDITIONS_FAULTY)
    elif draw < 0.3:
        identifier["selector"] = rng.choice(_CONDITIONS_GOOD)
    return identifier


def utilization_target(rng: random.Random) -> int:
    """Draw a target percentage, also odd ones and such above 100."""
    return rng.choice([1, 10, 30, 50, 60, 65, 75, 80, 90, 99, 100, 101, 120, 150, 400, 1000])


def container_layout(rng: random.Random) -> list[tuple[str, bool | None]]:
    """Draw the containers of all pods: (name, None: app, False: init, True: sidecar)."""
    layout: list[tuple[str, bool | None]] = [("app", None)]
    if chance(rng, 0.35):
        layout.append(("proxy", None))
    if chance(rng, 0.12):
        layout.append(("setup", False))
    if chance(rng, 0.25):
        layout.append(("logship", True))
    if chance(rng, 0.06):
        layout.append(("migrate", False))
    return layout


def build_containers(
    rng: random.Random, layout: list[tuple[str, bool | None]], requests: list[Json]
) -> Json:
    """Build ``containers`` and (if any) ``init_containers`` with one request dict each."""
    built: Json = {"containers": []}
    for (name, sidecar), request in zip(layout, requests, strict=True):
        container: Json = {"name": name}
        if request or chance(rng, 0.5):
            container["requests"] = request
        if sidecar is None:
            built["containers"].append(container)
            continue
        if sidecar:
            container["restart_policy"] = "Always"
        built.setdefault("init_containers", []).append(container)
    return built
