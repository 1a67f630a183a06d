"""Name formats and their complaints, in the API server's words."""

from __future__ import annotations

import pytest

from hpabatch.model import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def test_dns_labels() -> None:
    assert names.dns1123_label("web-1") == []
    assert names.dns1123_label("Web") == [LABEL]
    assert names.dns1123_label("a.b") == ["must not contain dots"]
    assert names.dns1123_label("a" * 64) == ["must be no more than 63 bytes"]
    assert names.dns1123_label("web\n") == [LABEL]


def test_dns_subdomains() -> None:
    assert names.dns1123_subdomain("a.b-c.d") == []
    assert names.dns1123_subdomain("a" * 254) == ["must be no more than 253 bytes"]
    assert "(e.g. 'example.com', regex used for validation is" in names.dns1123_subdomain("A")[0]


@pytest.mark.parametrize(
    ("value", "complaints"),
    [
        ("web", []), (".", ["may not be '.'"]), ("..", ["may not be '..'"]), ("...", []),
        ("a/b", ["may not contain '/'"]), ("a%b", ["may not contain '%'"]),
        ("a/%", ["may not contain '/'", "may not contain '%'"]),
    ],
)  # fmt: skip
def test_path_segments(value: str, complaints: list[str]) -> None:
    assert names.path_segment(value) == complaints


STANDARD = "must be a standard resource type or fully qualified"
CONTAINER = "must be a standard resource for containers"


@pytest.mark.parametrize(
    ("value", "complaints"),
    [
        ("cpu", []), ("memory", []), ("ephemeral-storage", []), ("hugepages-2Mi", []),
        ("nvidia.com/gpu", []), ("kubernetes.io/batch", []), ("pods", [CONTAINER]),
        ("requests.hugepages-2Mi", [CONTAINER]), ("gpu", [STANDARD, CONTAINER]),
        ("requests.nvidia.com/gpu", ["doesn't follow extended resource name standard"]),
        ("x" * 246 + ".io/gpu", ["doesn't follow extended resource name standard"]),
    ],
)  # fmt: skip
def test_container_resources(value: str, complaints: list[str]) -> None:
    assert names.container_resource(value) == complaints


def test_a_resource_name_that_is_no_name() -> None:
    assert names.container_resource("-") == [NAME_PART, CONTAINER]
