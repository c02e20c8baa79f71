"""Long streams in short lists. Input: any items; output: lists of at most so many, in order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Reads no further than the list that it hands out."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some
