"""Raw bytes of a list page or of a watch line → structs, with every fault kept to the object it is in.

Input: bytes as received and the Kind; output: Page and Watched. Invariants: the good case is one typed decode of
the whole body; when that fails each item is decoded alone, so one broken object never costs its neighbours; a
body that is not JSON, or no list, raises ParseError("bad_body"); decode_watch never raises.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from .base import BAD_BODY, Bad, Kind, ParseError, Row, Struct, bad_object, loose_version, served_text

T = TypeVar("T")


class ListMeta(Struct, frozen=True):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class ListOf(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A Kubernetes list: `items` has no default, so a Status or any other object is no list."""

    items: list[T] | None
    metadata: ListMeta = ListMeta()
    kind: str = ""


@dataclass(slots=True)
class Page:
    """One page of a list. `items` are structs; `bad` what could not be decoded."""

    items: list[Any]
    bad: list[Bad]
    resource_version: str
    continue_token: str
    body: bytes = field(repr=False)
    raws: list[msgspec.Raw] | None = field(default=None, repr=False)

    def raw(self, index: int) -> msgspec.Raw:
        """The bytes of `items[index]`."""
        if self.raws is None:
            self.raws = _raw_list.decode(self.body).items or []
        return self.raws[index]

    def refuse(self, index: int, error: str) -> Bad:
        """The Bad of `items[index]`, whose values turned out to be unusable."""
        return bad_object(self.raw(index), error)


@dataclass(frozen=True, slots=True)
class Watched:
    """One line of a watch.

    type: ADDED, MODIFIED, DELETED (`obj` or `bad` is set), BOOKMARK (only `resource_version`), or ERROR: the
    watch is over and the kind must be listed again; `code` is the server's (410: version expired), 0 for a line
    that is no watch event (then `bad` holds it)."""

    type: str
    obj: Any | None = None
    bad: Bad | None = None
    resource_version: str = ""
    code: int = 0
    message: str = ""
    raw: bytes = b""


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, frozen=True, gc=False):
    code: int = 0
    message: str = ""
    reason: str = ""


_raw_list = msgspec.json.Decoder(ListOf[msgspec.Raw])
_envelope = msgspec.json.Decoder(_Envelope)
_status = msgspec.json.Decoder(_Status)


@lru_cache(maxsize=64)
def list_decoder(struct: type[Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(ListOf[struct])  # type: ignore[valid-type]


@lru_cache(maxsize=64)
def object_decoder(struct: type[Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(struct)


def decode_list(kind: Kind, version: str, raw: bytes) -> Page:
    """Decode one page. Raises ParseError("bad_body") when the body as a whole is unusable."""
    try:
        found = list_decoder(kind.struct).decode(raw)
    except msgspec.MsgspecError:
        return _decode_apart(kind, version, raw)
    meta = found.metadata
    return Page(found.items or [], [], meta.resource_version, meta.continue_token, raw)


def _decode_apart(kind: Kind, version: str, raw: bytes) -> Page:
    try:
        found = _raw_list.decode(raw)
    except msgspec.MsgspecError as error:
        raise ParseError(
            f"the answer for {kind.plural} ({version}) is no list: {error}", kind=BAD_BODY
        ) from error
    decoder = object_decoder(kind.struct)
    items: list[Any] = []
    raws: list[msgspec.Raw] = []
    bad: list[Bad] = []
    for item in found.items or ():
        try:
            items.append(decoder.decode(item))
        except msgspec.MsgspecError as error:
            bad.append(bad_object(item, str(error)))
        else:
            raws.append(item)
    return Page(items, bad, found.metadata.resource_version, found.metadata.continue_token, raw, raws)


def page_rows(kind: Kind, page: Page) -> tuple[list[Row], list[Bad]]:
    """Rows of the page's items in the order of `kind.columns`, and everything of the page that is unusable."""
    rows: list[Row] = []
    bad = list(page.bad)
    make, keep = kind.row, rows.append
    for index, item in enumerate(page.items):
        try:
            keep((*make(item), served_text(page.raw(index))) if kind.keeps_raw else make(item))
        except Exception as error:  # noqa: BLE001  whatever an object does to us, it costs only that object
            bad.append(page.refuse(index, _why(error)))
    return rows, bad


def _why(error: Exception) -> str:
    """ParseError says what is wrong with a value; anything else was not foreseen (1e36 pods, …)."""
    return error.message if isinstance(error, ParseError) else f"{type(error).__name__}: {error}"


def watch_row(kind: Kind, watched: Watched) -> Row | Bad:
    """The row of a watched object, or why there is none. Only for ADDED, MODIFIED and DELETED."""
    if watched.bad is not None:
        return watched.bad
    try:
        row = kind.row(watched.obj)
        return (*row, served_text(watched.raw)) if kind.keeps_raw else row
    except Exception as error:  # noqa: BLE001  as in page_rows
        return bad_object(watched.raw, _why(error))


def decode_watch(kind: Kind, version: str, line: bytes) -> Watched:
    """Decode one line of a watch."""
    try:
        found = _envelope.decode(line)
    except msgspec.MsgspecError as error:
        problem = f"the watch of {kind.plural} ({version}) sent a line that is no event: {error}"
        return Watched("ERROR", bad=bad_object(line, problem), message=problem)
    if found.type == "ERROR":
        return _decode_error(found.object)
    if found.type == "BOOKMARK":
        return Watched("BOOKMARK", resource_version=loose_version(found.object))
    raw = bytes(found.object)
    try:
        obj = object_decoder(kind.struct).decode(raw)
    except msgspec.MsgspecError as error:
        return Watched(
            found.type, bad=bad_object(raw, str(error)), resource_version=loose_version(raw), raw=raw
        )
    return Watched(found.type, obj=obj, resource_version=obj.metadata.resource_version, raw=raw)


def _decode_error(raw: msgspec.Raw) -> Watched:
    try:
        status = _status.decode(raw)
    except msgspec.MsgspecError as error:
        return Watched("ERROR", bad=bad_object(raw, str(error)), message=str(error))
    return Watched("ERROR", code=status.code, message=status.message or status.reason)
