"""Pages by one unique, totally ordered key. Input: rows or a queryset, and an opaque cursor; output: a page.

Invariants
- A cursor is the key of the last row handed out, never a position: rows that come or go before it neither repeat
  nor hide a row that stays.
- The key is unique among the rows, so that no two rows can share a cursor.
- A page has at most `MAX_PAGE_SIZE` rows.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 500
MAX_CURSOR_LENGTH = 2000
NO_CURSOR = _("This is not a cursor of this list: start again without one.")
Key = tuple[int | str, ...]


def instant_key(at: datetime) -> str:
    """An instant as a part of a key: text in the order of time."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


Row = TypeVar("Row")
M = TypeVar("M", bound=Model)


class PageForm(forms.Form):
    """The parameters that every list takes."""

    cursor = forms.CharField(
        label=_("Cursor"),
        required=False,
        max_length=MAX_CURSOR_LENGTH,
        help_text=_("From `next` of the page before; opaque."),
    )
    page_size = forms.IntegerField(
        label=_("Page size"),
        required=False,
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        help_text=_("How many rows a page holds at most."),
    )

    def __init__(self, data: Any, *, route: str, shape: tuple[type, ...]) -> None:
        """A cursor is bound to the route that made it; `shape` holds the types of its key."""
        super().__init__(data)
        self.route = route
        self.shape = shape

    def clean_cursor(self) -> Key | None:
        text: str = self.cleaned_data["cursor"]
        if not text:
            return None
        key = decode_cursor(text, route=self.route)
        if key is None or tuple(type(part) for part in key) != self.shape:
            raise ValidationError(NO_CURSOR, "cursor")
        return key

    @property
    def size(self) -> int:
        return self.cleaned_data["page_size"] or DEFAULT_PAGE_SIZE


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """`last` is the key to go on from; None when nothing is left."""

    rows: list[Row]
    last: Key | None


def page_of_rows(
    rows: Iterable[Row], *, key: Callable[[Row], Key], after: Key | None, size: int
) -> Page[Row]:
    """A page of rows that are computed together anyway, in the order of their keys."""
    keyed = sorted(((key(row), row) for row in rows), key=lambda pair: pair[0])
    left = [pair for pair in keyed if after is None or pair[0] > after]
    taken = left[:size]
    return Page([row for _key, row in taken], taken[-1][0] if len(left) > size else None)


def page_of_ids(rows: QuerySet[M], *, after: Key | None, size: int, newest_first: bool = False) -> Page[M]:
    """A page of a table in the order of its ids; reads one row more than it hands out."""
    found = rows.order_by("-pk" if newest_first else "pk")
    if after is not None:
        found = found.filter(**{"pk__lt" if newest_first else "pk__gt": after[0]})
    taken = list(found[: size + 1])
    return Page(taken[:size], (taken[size - 1].pk,) if len(taken) > size else None)


def encode_cursor(key: Key, *, route: str) -> str:
    text = json.dumps([route, *key], ensure_ascii=False, separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(text: str, *, route: str) -> Key | None:
    """The key, or None for anything that `encode_cursor` did not make for this route."""
    try:
        parts = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        return None
    if not isinstance(parts, list) or len(parts) < 2 or parts[0] != route:
        return None
    key = tuple(parts[1:])
    if any("\x00" in part for part in key if isinstance(part, str)):
        return None
    if any(type(part) not in (int, str) or (type(part) is int and abs(part) >= 2**63) for part in key):
        return None
    return key


def next_link(request: HttpRequest, key: Key | None, *, route: str) -> str | None:
    """The same query with the cursor of the next page, as an absolute path."""
    if key is None:
        return None
    query = [(name, value) for name, value in request.GET.items() if name != "cursor"]
    return f"{request.path}?{urlencode([*query, ('cursor', encode_cursor(key, route=route))])}"
