"""Fetching one item ahead keeps order, passes errors on, and stops when nobody listens."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from worker.collectors.ahead import one_ahead


def test_items_come_in_order() -> None:
    assert list(one_ahead(iter(range(20)))) == list(range(20))


def test_error_comes_where_its_item_would_have() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("cut")

    found = one_ahead(source())
    assert next(found) == 1
    with pytest.raises(ValueError, match="cut"):
        next(found)


def test_at_most_two_items_are_read_before_they_are_wanted() -> None:
    read: list[int] = []

    def source() -> Iterator[int]:
        for number in range(10):
            read.append(number)
            yield number

    with closing(one_ahead(source())) as found:
        next(found)
        time.sleep(0.1)
        assert len(read) <= 3


def test_reader_ends_when_the_consumer_leaves() -> None:
    with closing(one_ahead(iter(range(10)))) as found:
        next(found)
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and any(t.name == "one-ahead" for t in threading.enumerate()):
        time.sleep(0.02)
    assert not any(t.name == "one-ahead" for t in threading.enumerate())
