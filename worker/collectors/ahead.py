"""Fetching the next page while the present one is parsed and stored.

Input: an iterator that waits for the network; output: its items, in order, one ahead. Invariants: at most one item
waits, so memory stays flat; an error of the source is raised where its item would have come; closing stops the
reader at its next item.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

T = TypeVar("T")


class _End:
    """The source is exhausted, or broke with `error`."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def one_ahead(source: Iterator[T]) -> Generator[T, None, None]:
    """The items of `source`, read by a thread of their own."""
    held: queue.Queue[T | _End] = queue.Queue(maxsize=1)
    stop = threading.Event()

    def put(item: T | _End) -> None:
        while not stop.is_set():
            try:
                held.put(item, timeout=0.2)
            except queue.Full:
                continue
            return

    def read() -> None:
        error: BaseException | None = None
        try:
            for item in source:
                put(item)
                if stop.is_set():
                    return
        except BaseException as found:  # noqa: BLE001  handed over to the consumer
            error = found
        put(_End(error))

    threading.Thread(target=read, name="one-ahead", daemon=True).start()
    try:
        while True:
            item = held.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stop.set()
