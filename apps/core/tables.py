"""Tables that a page and its CSV share. Input: rows (dataclasses, model objects or dicts); output: HTML and values.

Sort, page and filters live in the URL. Columns declare once how a cell looks (`render`) and what its raw value is
(`raw`, for CSV). Invariant: a row that nobody looks at is not computed: data that is read lazily is only
sliced, unless the reader asks for another order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime
from decimal import Decimal
from html import escape
from inspect import signature
from typing import Any
from urllib.parse import urlencode

import django_tables2 as tables
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.http.request import QueryDict
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language
from django_tables2.data import TableListData

from apps.core.csv import csv_response
from apps.core.formats import (
    bytes_text,
    duration_text,
    number_text,
    percent_text,
    quantities_text,
    show_value,
    time_text,
)

Text = str | Promise
ROWS_PER_PAGE = 50
# How a link to another order or page of a table takes the place of the present one.
_SWAP = 'hx-boost="true" hx-target="#main" hx-select="#main" hx-swap="outerHTML show:none"'
CSV_PARAMETER = "format"


def _attrs(*classes: str) -> dict[str, dict[str, str]]:
    names = " ".join(name for name in classes if name)
    return {"th": {"class": names}, "td": {"class": names}} if names else {}


class TextColumn(tables.Column):  # type: ignore[misc]
    """Text as it is; `hide_small` leaves it out on phones."""

    classes: tuple[str, ...] = ()

    def __init__(self, *args: Any, hide_small: bool = False, classes: str = "", **kwargs: Any) -> None:
        kwargs.setdefault("default", "–")
        kwargs.setdefault("attrs", _attrs(*self.classes, classes, "hide-s" if hide_small else ""))
        super().__init__(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> TextColumn:
        """Each table gets columns of its own; what they refer to (attributes, labels) nobody changes."""
        return copy(self)

    def raw(self, value: Any) -> Any:
        """The value for the CSV."""
        return value


class LinkColumn(TextColumn):
    """Text that leads to `url(record)`; `note(record)` is a second, quiet line. "" gives no link."""

    def __init__(
        self, *args: Any, url: Callable[[Any], str], note: Callable[[Any], str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.url = url
        self.note = note

    def render(self, value: Any, record: Any) -> SafeString:
        href = self.url(record)
        text = format_html('<a href="{}">{}</a>', href, value) if href else format_html("{}", value)
        note = self.note(record) if self.note is not None else ""
        return format_html('{}<br><span class="muted">{}</span>', text, note) if note else text


class NumberColumn(TextColumn):
    """A number under tabular figures. None reads "not collected" unless `absent` says another word."""

    classes = ("num",)

    def __init__(self, *args: Any, absent: Text | None = None, places: int = 1, **kwargs: Any) -> None:
        super().__init__(*args, empty_values=(), **kwargs)
        self.absent = absent
        self.places = places

    def render(self, value: Any) -> str | SafeString:
        if value is None:
            return show_value(None) if self.absent is None else str(self.absent)
        return show_value(value, places=self.places)


class RatioColumn(TextColumn):
    """A ratio as a percentage; the CSV keeps the ratio. None reads "not collected" unless `absent` says another word."""

    classes = ("num",)

    def __init__(self, *args: Any, absent: Text | None = None, **kwargs: Any) -> None:
        super().__init__(*args, empty_values=(), **kwargs)
        self.absent = absent

    def render(self, value: Any) -> str | SafeString:
        if value is None:
            return show_value(None) if self.absent is None else str(self.absent)
        return percent_text(value)


class BytesColumn(TextColumn):
    """A size in binary units; the CSV keeps the bytes. None reads "not collected"."""

    classes = ("num",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, empty_values=(), **kwargs)

    def render(self, value: Any) -> str | SafeString:
        return show_value(None) if value is None else bytes_text(value)


class DurationColumn(TextColumn):
    """Seconds as "3 h 12 m"; the CSV keeps the seconds."""

    classes = ("num",)

    def render(self, value: Any) -> str:
        return duration_text(value)


class TimeColumn(TextColumn):
    """An instant in the display zone."""

    classes = ("when",)

    def render(self, value: datetime) -> SafeString:
        return format_html('<time datetime="{}">{}</time>', value.isoformat(), time_text(value))


class QuantitiesColumn(TextColumn):
    """{resource: amount}: "64 × GPU"."""

    classes = ("num",)

    def render(self, value: dict[str, Decimal]) -> str:
        return quantities_text(value)

    def raw(self, value: dict[str, Decimal]) -> str | None:
        return "; ".join(f"{name}={number_text(n, places=3)}" for name, n in value.items()) if value else None


class BarColumn(TextColumn):
    """A drawing of other columns' numbers: not in the CSV, without an order of its own."""

    classes = ("barcell",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, orderable=False, exclude_from_export=True, empty_values=(), **kwargs)


class _RowsData(TableListData):  # type: ignore[misc]
    """Rows that are sliced where they are; only another order makes a list of them."""

    data: Sequence[Any]

    def __init__(self, data: Sequence[Any]) -> None:
        super().__init__(data)

    def order_by(self, aliases: Any) -> None:
        self.data = list(self.data)
        super().order_by(aliases)


class PortalTable(tables.Table):  # type: ignore[misc]
    """Base of the portal's tables. `caption` says what a row is; `file_name` names the CSV."""

    caption: Any = ""
    file_name = "table"
    query: QueryDict = QueryDict()
    repeats: Hashable | None = None
    """Not None: the same record (the very object) always reads the same in one language, but for what this says."""

    class Meta:
        template_name = "tables/table.html"
        attrs = {"class": "data"}
        order_by_field = "sort"
        empty_text: Any = "–"

    def __init__(self, rows: Sequence[Any] | QuerySet[Any], **kwargs: Any) -> None:
        # A queryset knows how to order and count itself; anything else is wrapped.
        data = rows if hasattr(rows, "order_by") else _RowsData(rows)
        super().__init__(data, **kwargs)

    def as_values(self, exclude_columns: Collection[str] | None = None) -> Iterator[list[Any]]:
        """Headers, then raw values of every column, hidden ones included: `value_<name>(record)` where the table
        has it, else what the accessor finds."""
        columns = [
            column
            for column in self.columns.iterall()
            if not column.column.exclude_from_export and column.name not in (exclude_columns or ())
        ]
        yield [str(column.header) for column in columns]
        for record in self.data:
            yield [self._raw(column, record) for column in columns]

    def _raw(self, column: tables.columns.BoundColumn, record: Any) -> Any:
        own = getattr(self, f"value_{column.name}", None)
        if own is not None:
            return own(record)
        value = column.accessor.resolve(record, quiet=True)
        return column.column.raw(value) if isinstance(column.column, TextColumn) else value

    @property
    def total(self) -> int:
        return len(self.data)

    @property
    def head(self) -> SafeString:
        """The header cells; one that orders the table links to the page in its order."""
        field = self.prefixed_order_by_field
        kept = urlencode([(key, v) for key, values in self.query.lists() if key != field for v in values])
        start = f"?{escape(kept)}&amp;{field}=" if kept else f"?{field}="
        return mark_safe("".join(self._head(column, start) for column in self.columns))  # noqa: S308 -- escaped

    def _head(self, column: tables.columns.BoundColumn, start: str) -> str:
        alias = column.order_by_alias
        aria = ""
        if column.is_ordered:
            aria = f' aria-sort="{"descending" if alias.is_descending else "ascending"}"'
        text: str = conditional_escape(column.header)
        if column.orderable:
            text = f'<a href="{start}{escape(alias.next)}" {_SWAP}>{text}</a>'
        return f'<th scope="col" {column.attrs["th"].as_html()}{aria}>{text}</th>'

    @property
    def body(self) -> SafeString:
        """The rows of the page that is shown, as HTML; "" when there is none. What belongs to a column (its
        attributes, how it renders) is worked out once and not for each cell."""
        rows = self.page.object_list if hasattr(self, "page") else self.rows
        cells = [_cell_maker(self, column) for column in self.columns]

        def row(record: Any) -> str:
            return f"<tr>{''.join([make(record) for make in cells])}</tr>"

        write: Callable[[Any], str] = row
        if self.repeats is not None:
            names = tuple(column.name for column in self.columns)
            write = _written_once(row, (type(self), names, get_language(), self.repeats))
        return mark_safe("".join(map(write, rows.data)))  # noqa: S308 -- each cell is escaped by its maker


# Rows as they were written, by table, columns, language and identity; the row itself is kept with them, so that
# nothing else can have its identity meanwhile.
_WRITTEN: dict[Hashable, tuple[Any, str]] = {}
_MOST_WRITTEN = 4096


def _written_once(write: Callable[[Any], str], table: Hashable) -> Callable[[Any], str]:
    def once(record: Any) -> str:
        key = (table, id(record))
        found = _WRITTEN.get(key)
        if found is None:
            if len(_WRITTEN) >= _MOST_WRITTEN:
                _WRITTEN.clear()
            found = _WRITTEN[key] = record, write(record)
        return found[1]

    return once


def _cell_maker(table: PortalTable, bound: tables.columns.BoundColumn) -> Callable[[Any], str]:
    """How a column's cell is written. Same rules as BoundRow's: the table's own `render_<name>` before the
    column's, which takes what its parameters ask for; an empty value reads as the column's default."""
    column = bound.column
    head = f"<td {bound.attrs['td'].as_html()}>"
    render = getattr(table, f"render_{bound.name}", column.render)
    wanted = [name for name in signature(render).parameters if name != "self"]
    given = {"column": column, "bound_column": bound, "table": table}
    find, empty = _finder(bound.accessor), column.empty_values
    default = conditional_escape(bound.default)

    def make(record: Any) -> str:
        value = find(record)
        if value in empty:
            return f"{head}{default}</td>"
        own = {"value": value, "record": record}
        shown = render(**{name: own[name] if name in own else given[name] for name in wanted})
        return f"{head}{_escaped(shown)}</td>"

    return make


def _escaped(shown: Any) -> str:
    """As conditional_escape, without its detour over lazy text where the kind of text is plain."""
    if isinstance(shown, SafeString):
        return shown
    return escape(shown) if type(shown) is str else conditional_escape(shown)


def _finder(accessor: Any) -> Callable[[Any], Any]:
    """What an accessor finds in a record; None where a part of the way is missing."""
    bits = accessor.bits

    def find(record: Any) -> Any:
        current = record
        try:
            for bit in bits:
                current = _step(current, bit)
                if current is None:
                    break
        except (AttributeError, KeyError):
            return None
        return current

    return find


def _step(current: Any, bit: str) -> Any:
    """An entry of a mapping, or an attribute; of a model's choice its words."""
    if isinstance(current, Mapping):
        return current[bit] if bit in current else current[int(bit) if bit.isdecimal() else bit]
    if isinstance(current, Model):
        words = getattr(current, f"get_{bit}_display", None)
        if words is not None:
            return words()
    return getattr(current, bit)


def prepare(
    table: PortalTable, request: HttpRequest, *, per_page: int = ROWS_PER_PAGE, hide: Collection[str] = ()
) -> PortalTable:
    """Apply the URL's order and page. An order by a column that does not exist is ignored. `hide`: columns that
    say the same in every row; the CSV keeps them."""
    for name in set(hide) & set(table.columns.names()):
        table.columns.hide(name)
    configured: PortalTable = tables.RequestConfig(request, paginate={"per_page": per_page}).configure(table)
    configured.query = request.GET
    return configured


def wants_csv(request: HttpRequest, table: str = "") -> bool:
    """`?format=csv` asks for the page's only table, `?format=csv&table=NAME` for one of several."""
    return request.GET.get(CSV_PARAMETER) == "csv" and request.GET.get("table", "") == table


def table_csv(table: PortalTable, request: HttpRequest) -> HttpResponseBase:
    """Every row of the table under the same filters and order, not only the page that is shown."""
    tables.RequestConfig(request, paginate=False).configure(table)
    stamp = timezone.now().strftime("%Y%m%dT%H%MZ")
    filters = [
        f"{key}-{value}"
        for key, value in sorted(request.GET.items())
        if value and key not in {CSV_PARAMETER, "page", "sort", "table", "per_page"}
    ]
    return csv_response("_".join([table.file_name, *filters, stamp])[:150], table.as_values())
