"""Shared parts of object decoders: results, errors, metadata, selectors.

A decoder takes the bytes of one object, of a list or a watch event alike, and reads only the
fields that are used: null is as good as absent, unknown fields are skipped, and list items need
not name their kind.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from hpabatch.cluster.objects.types import Kind, PodKey, ScaleKey, Thing
from hpabatch.errors import UnreadableError
from hpabatch.model.objects.decode_fields import api_time_ms
from hpabatch.model.objects.hpa import LabelSelector, LabelSelectorRequirement
from hpabatch.model.times import parse_go_duration_ns

Text: TypeAlias = str | None
WireBytes: TypeAlias = bytes | msgspec.Raw
"""One object's JSON; a Raw is not kept, because it references its whole response."""

UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""Errors of decoding: no JSON, other types, or nested too deeply."""

NOTHING: Final = (b"", b"null")
"""Contents of a Raw field that is absent or null."""


class Decoded(NamedTuple):
    """One object."""

    key: PodKey | ScaleKey
    thing: Thing


class BrokenObjectError(UnreadableError):
    """An object that cannot be decoded; `namespace` and `name` are "" where not even they can."""

    def __init__(self, text: str, namespace: str = "", name: str = "") -> None:
        super().__init__(text)
        self.namespace = namespace
        self.name = name


class Decoder(Protocol):
    """Decoder of the objects of one kind."""

    @property
    def kind(self) -> Kind:
        """The kind of its changes."""

    def decode(self, raw: WireBytes) -> Decoded:
        """Return an object's value.

        Raises:
            BrokenObjectError: it cannot be decoded; the message names it where possible.
        """


class Owner(msgspec.Struct, gc=False):
    """An entry of ownerReferences."""

    kind: Text = None
    name: Text = None
    controller: bool | None = None


class Meta(msgspec.Struct, gc=False):
    """The used parts of metadata; labels and annotations stay bytes, to be shared or compared."""

    namespace: Text = None
    name: Text = None
    uid: Text = None
    resourceVersion: Text = None  # noqa: N815
    generation: int | None = None
    creationTimestamp: Text = None  # noqa: N815
    deletionTimestamp: Text = None  # noqa: N815
    ownerReferences: list[Owner] | None = None  # noqa: N815
    labels: msgspec.Raw = msgspec.Raw()
    annotations: msgspec.Raw = msgspec.Raw()


class _Named(msgspec.Struct, gc=False):
    namespace: Text = None
    name: Text = None


class _Anything(msgspec.Struct, gc=False):
    metadata: _Named | None = None


_NAMES = msgspec.json.Decoder(_Anything)
STRING_MAP = msgspec.json.Decoder(dict[str, Text])


def broken(what: str, raw: WireBytes, error: Exception) -> BrokenObjectError:
    """Return the error of an object that cannot be decoded, with its name where it has one.

    Args:
        what: the kind of object, for the message.
        raw: its bytes.
        error: why it cannot be decoded.
    """
    try:
        named = _NAMES.decode(raw).metadata or _Named()
    except UNREADABLE:
        named = _Named()
    namespace, name = named.namespace or "", named.name or ""
    if not name:
        return BrokenObjectError(f"a {what} without a readable name: {error}")
    return BrokenObjectError(f"{what} {namespace}/{name}: {error}", namespace, name)


def key_of(meta: Meta) -> PodKey:
    """Return namespace and name.

    Raises:
        ValueError: there is no name, or no namespace.
    """
    if not meta.name or not meta.namespace:
        raise ValueError("metadata.name or metadata.namespace is missing")
    return meta.namespace, meta.name


def optional_ms(text: Text) -> int | None:
    """Return a time in ms, None where it is absent.

    Raises:
        ValueError: it is no time.
    """
    return None if text is None else api_time_ms(text)


def string_map(raw: WireBytes) -> dict[str, str]:
    """Return an object of strings (metadata.labels); a null value is "".

    Raises:
        msgspec.DecodeError: it is none.
    """
    if bytes(raw) in NOTHING:
        return {}
    found = STRING_MAP.decode(raw)
    return {key: value or "" for key, value in found.items()}


SHARED: Final = 20_000
"""The most values that a decoder keeps to share them among objects."""


@lru_cache(maxsize=5000)
def duration_ms(text: str) -> int:
    """Return a Go duration such as `30s`, `1m0.5s` or `0` in ms, cut (time.ParseDuration).

    Raises:
        ValueError: another form, or longer than Go can hold; the message quotes it.
    """
    ns = parse_go_duration_ns(text)
    return ns // 1_000_000 if ns >= 0 else -(-ns // 1_000_000)


class _Requirement(msgspec.Struct, gc=False):
    key: Text = None
    operator: Text = None
    values: list[Text] | None = None


class _Selector(msgspec.Struct, gc=False):
    matchLabels: dict[str, Text] | None = None  # noqa: N815
    matchExpressions: list[_Requirement | None] | None = None  # noqa: N815


_SELECTOR = msgspec.json.Decoder(_Selector)


def read_label_selector(raw: bytes) -> LabelSelector | None:
    """Return a selector object as written, None where it is absent or null.

    Raises:
        msgspec.DecodeError: it is no selector object.
    """
    if raw in NOTHING:
        return None
    found = _SELECTOR.decode(raw)
    return LabelSelector(
        tuple((key, value or "") for key, value in (found.matchLabels or {}).items()),
        tuple(_requirement(item or _Requirement()) for item in found.matchExpressions or ()),
    )


def _requirement(item: _Requirement) -> LabelSelectorRequirement:
    values = tuple(value or "" for value in item.values or ())
    return LabelSelectorRequirement(item.key or "", item.operator or "", values)
