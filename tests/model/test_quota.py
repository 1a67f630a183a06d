"""The tightest of several quotas of a namespace."""

from __future__ import annotations

from hpabatch.model.quota import CORES, PODS, Limit, Quota, tightest


def quota(name: str, namespace: str, **hard: int) -> Quota:
    limits = {amount: Limit(value, amount, name) for amount, value in hard.items()}
    return Quota(name=name, namespace=namespace, limits=limits)


def test_the_smallest_limit_of_each_amount_counts() -> None:
    quotas = [
        quota("loose", "shop", pods=90, cores=20_000),
        quota("tight", "shop", pods=50, cores=30_000),
        quota("same", "shop", pods=50),
        quota("other", "media", pods=1, cores=1),
    ]
    found = tightest(quotas, "east", "shop")
    assert {amount: (limit.hard, limit.quota) for amount, limit in found.items()} == {
        PODS: (50, "tight"),
        CORES: (20_000, "loose"),
    }
    assert tightest(quotas, "east", "batch") == {}
