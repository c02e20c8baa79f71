"""Reading several bounded watches at once, so that a pull waits for the slowest and not for their sum.

Input: which collections to watch from which version; output: one stream of (name, line) and the end of each.
Invariants: lines of one watch keep their order; the queue between readers and consumer is short, so a slow
database slows the readers down instead of filling memory; leaving the context stops every reader.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from worker.clients.errors import UNREACHABLE, ClientError
from worker.clients.kube import KubeClient


@dataclass(frozen=True, slots=True)
class WatchOrder:
    """One watch to read: `name` tells its lines apart."""

    name: str
    path: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the watch `name`."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """The watch `name` is over; `error` when it broke (the lines before that are good)."""

    name: str
    error: ClientError | None


class Watches:
    """`with Watches(...) as lines: for item in lines: ...`"""

    def __init__(self, client: KubeClient, orders: Sequence[WatchOrder], timeout_seconds: int) -> None:
        self._client = client
        self._orders = orders
        self._timeout = timeout_seconds
        self._queue: queue.Queue[Line | Ended] = queue.Queue(maxsize=1000)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=(order,), name=f"watch-{order.name}", daemon=True)
            for order in orders
        ]

    def __enter__(self) -> Iterator[Line | Ended]:
        for thread in self._threads:
            thread.start()
        return self._items()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()

    def _items(self) -> Iterator[Line | Ended]:
        left = len(self._orders)
        while left:
            item = self._queue.get()
            if isinstance(item, Ended):
                left -= 1
            yield item

    def _put(self, item: Line | Ended) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def _read(self, order: WatchOrder) -> None:
        failed: ClientError | None = None
        try:
            for data in self._client.watch(order.path, order.resource_version, self._timeout):
                if not self._put(Line(order.name, data)):
                    return
        except ClientError as error:
            failed = error
        except Exception as error:  # noqa: BLE001  a thread has nobody else to tell
            failed = ClientError(UNREACHABLE, f"{order.path}: {type(error).__name__}: {error}")
        self._put(Ended(order.name, failed))
