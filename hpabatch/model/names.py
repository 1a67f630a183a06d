"""Kubernetes' name formats, checked: each function returns complaints, none for a valid name.

The complaints are the API server's. Follows apimachinery pkg/api/validate/content,
pkg/util/validation and pkg/api/validation/path. Lengths are UTF-8 bytes, as Go counts them.
"""

from __future__ import annotations

import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"

_LABEL_RE = re.compile(_LABEL)
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_QUALIFIED_RE = re.compile(_QUALIFIED)
_LABEL_VALUE_RE = re.compile(_LABEL_VALUE)

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)

_STANDARD_RESOURCES = frozenset(
    {
        "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory",
        "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "storage", "requests.storage", "services.nodeports",
        "services.loadbalancers",
    }
)  # fmt: skip
_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})


def dns1123_label(value: str) -> list[str]:
    """Check a DNS label of at most 63 bytes, such as a container's or a namespace's name."""
    complaints = _length(value, 63)
    if not _LABEL_RE.fullmatch(value):
        if _SUBDOMAIN_RE.fullmatch(value):
            complaints.append("must not contain dots")
        else:
            complaints.append(_format(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return complaints


def dns1123_subdomain(value: str) -> list[str]:
    """Check a DNS subdomain of at most 253 bytes, such as an HPA's name."""
    complaints = _length(value, 253)
    if not _SUBDOMAIN_RE.fullmatch(value):
        complaints.append(_format(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return complaints


def qualified_name(value: str) -> list[str]:
    """Check a label or annotation key: a name of at most 63 bytes with an optional prefix."""
    parts = value.split("/")
    if len(parts) > 2:
        text = _format(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc")
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {text}{suffix}"]
    complaints: list[str] = []
    if len(parts) == 2:
        prefix = dns1123_subdomain(parts[0]) if parts[0] else ["must be non-empty"]
        complaints.extend(f"prefix part {text}" for text in prefix)
    name = parts[-1]
    found = _length(name, 63) if name else ["must be non-empty"]
    if not _QUALIFIED_RE.fullmatch(name):
        found.append(_format(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc"))
    return complaints + [f"name part {text}" for text in found]


def label_value(value: str) -> list[str]:
    """Check a label's value: empty, or at most 63 bytes."""
    complaints = _length(value, 63)
    if not _LABEL_VALUE_RE.fullmatch(value):
        text = _format(_LABEL_VALUE_TEXT, _LABEL_VALUE, "MyValue", "my_value", "12345")
        complaints.append(text)
    return complaints


def path_segment(value: str) -> list[str]:
    """Check that a name can stand in a URL path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in value]


def container_resource(value: str) -> list[str]:
    """Check a resource name that containers may request (core/v1 ValidateContainerResourceName)."""
    complaints = qualified_name(value)
    huge = value.startswith("hugepages-")
    if "/" not in value:
        quota_huge = value.startswith("requests.hugepages-")
        if not complaints and not (value in _STANDARD_RESOURCES or huge or quota_huge):
            complaints.append("must be a standard resource type or fully qualified")
        if not (value in _CONTAINER_RESOURCES or huge):
            complaints.append("must be a standard resource for containers")
    elif "kubernetes.io/" not in value:
        extended = not value.startswith("requests.") and not qualified_name(f"requests.{value}")
        if not extended:
            complaints.append("doesn't follow extended resource name standard")
    return complaints


def _length(value: str, limit: int) -> list[str]:
    size = len(value.encode("utf-8", "surrogatepass"))
    return [f"must be no more than {limit} bytes"] if size > limit else []


def _format(text: str, pattern: str, *examples: str) -> str:
    """Return upstream's explanation of a pattern, its odd punctuation included."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"
