"""All kinds that the collectors pull, by the portal's name, in the order in which they are best pulled.

Queues come before workloads, so that waiting work finds its queue. `decode_list`, `decode_watch`, `page_rows`
and `watch_row` (worker/parsers/decode.py) take these.
"""

from __future__ import annotations

from .base import Bad, Kind, ParseError
from .core import CORE_KINDS
from .decode import Page, Watched, decode_list, decode_watch, page_rows, watch_row
from .devices import DEVICE_KINDS
from .kueue import KUEUE_KINDS
from .volcano import VOLCANO_KINDS

_ALL = (*CORE_KINDS, *KUEUE_KINDS, *VOLCANO_KINDS, *DEVICE_KINDS)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}


def kinds_of(source: str) -> tuple[Kind, ...]:
    """The kinds of one source, in order of pulling."""
    return tuple(kind for kind in KINDS.values() if kind.source == source)


__all__ = [
    "KINDS",
    "Bad",
    "Kind",
    "Page",
    "ParseError",
    "Watched",
    "decode_list",
    "decode_watch",
    "kinds_of",
    "page_rows",
    "watch_row",
]
