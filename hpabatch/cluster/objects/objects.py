"""What all decoders of objects share: their results, their error, and metadata.

A decoder takes the bytes of one object, of a list or a watch event alike, and reads only the
fields that are used: null is as good as absent, unknown fields are skipped, and list items need
not say their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from hpabatch.cluster.objects.instants import instant_ms
from hpabatch.cluster.objects.types import Kind, PodKey, ScaleKey, Thing
from hpabatch.errors import UnreadableError

Text: TypeAlias = str | None
WireBytes: TypeAlias = bytes | msgspec.Raw
"""One object's JSON; a Raw is not kept, as it holds on to the whole answer that it is part of."""

UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What reading JSON that is none, or of other types or too deep, raises."""

NOTHING: Final = (b"", b"null")
"""What a Raw field holds that is absent or null."""


class Decoded(NamedTuple):
    """One object: its key, what tells it from an earlier one of its name, and its value."""

    key: PodKey | ScaleKey
    uid: str
    resource_version: str
    thing: Thing


class BrokenObjectError(UnreadableError):
    """An object that cannot be decoded; `namespace` and `name` are "" where not even they can."""

    def __init__(self, text: str, namespace: str = "", name: str = "") -> None:
        """Take the sentence, and which object it is about."""
        super().__init__(text)
        self.namespace = namespace
        self.name = name


class Decoder(Protocol):
    """Decodes the objects of one kind."""

    @property
    def kind(self) -> Kind:
        """What its changes are of."""

    def decode(self, raw: WireBytes) -> Decoded:
        """Return an object's value.

        Raises:
            BrokenObjectError: it cannot be decoded; the sentence names it where it can.
        """


class Owner(msgspec.Struct, gc=False):
    """An entry of ownerReferences."""

    kind: Text = None
    name: Text = None
    controller: bool | None = None


class Meta(msgspec.Struct, gc=False):
    """The metadata that is used; labels and annotations stay bytes, to be shared or compared."""

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
        what: which kind of object, in words.
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
    return None if text is None else instant_ms(text)


def string_map(raw: WireBytes) -> dict[str, str]:
    """Return an object of strings (metadata.labels); a null value is "".

    Raises:
        msgspec.DecodeError: it is none.
    """
    if bytes(raw) in NOTHING:
        return {}
    found = STRING_MAP.decode(raw)
    return {key: value or "" for key, value in found.items()}


KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


class Shared(Generic[KeyT, ValueT]):
    """Values made from equal keys exist once. Bounded: when it is full it begins anew."""

    def __init__(self, make: Callable[[KeyT], ValueT], limit: int = 20_000) -> None:
        """Take how a value is made, and how many are kept at most."""
        self._make = make
        self._limit = limit
        self._values: dict[KeyT, ValueT] = {}

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._values)

    def get(self, key: KeyT) -> ValueT:
        """Return the value of a key; what making it raises comes through."""
        found = self._values.get(key)
        if found is None:
            found = self._make(key)
            if len(self._values) >= self._limit:
                self._values.clear()
            self._values[key] = found
        return found
