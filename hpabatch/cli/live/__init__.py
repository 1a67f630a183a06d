"""Commands that watch a cluster."""

from importlib.util import find_spec

from hpabatch.errors import UsageError


def need_packages() -> None:
    """Refuse where packages are not installed that only a cluster needs (UsageError)."""
    for package in ("httpx2", "prometheus_client"):
        if find_spec(package) is None:
            raise UsageError(
                f"{package} is not installed: `pip install 'hpabatch[live]'` (in a clone: "
                "`pip install -e '.[live]'`) brings what a cluster needs"
            )
