"""The rows of a table as HTML: the same cells as django-tables2 makes, and nothing that is not escaped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import override

from apps.core.tables import LinkColumn, NumberColumn, PortalTable, TextColumn, prepare


@dataclass(frozen=True)
class Owner:
    name: str


@dataclass(frozen=True)
class Row:
    name: str
    amount: int | None
    owner: Owner | None = None
    fits: dict[int, int] = field(default_factory=dict)
    tags: tuple[str, ...] = ()


class SomeTable(PortalTable):
    name = LinkColumn(verbose_name="Name", url=lambda row: f"/x/{row.name}", classes="name")
    amount = NumberColumn(verbose_name="Amount")
    owner = TextColumn(verbose_name="Owner", accessor="owner__name")
    eight = NumberColumn(verbose_name="8", accessor="fits__8", absent="none")
    tags = TextColumn(verbose_name="Tags", empty_values=())
    hidden = TextColumn(verbose_name="Hidden", accessor="name", visible=False)

    def render_tags(self, record: Row, column: Any) -> SafeString | str:
        assert column.verbose_name == "Tags"
        return format_html("<b>{}</b>", record.tags[0]) if record.tags else "–"


ROWS = [
    Row("a<b", 1200, Owner("Ann & Bob"), {8: 3}, ("x>y",)),
    Row("b", None),
    Row("", 0, Owner("")),
]


def test_cells_are_those_of_the_library(rf: Any) -> None:
    table = prepare(SomeTable(ROWS), rf.get("/"))
    by_library = "".join(
        "<tr>"
        + "".join(
            format_html("<td {}>{}</td>", column.attrs["td"].as_html(), cell) for column, cell in row.items()
        )
        + "</tr>"
        for row in table.paginated_rows
    )
    assert table.body == by_library
    assert "a&lt;b" in table.body
    assert "<b>x&gt;y</b>" in table.body
    assert "not collected" in table.body


def test_only_the_page_that_is_shown_is_written(rf: Any) -> None:
    rows = [Row(f"r{n}", n) for n in range(5)]
    table = prepare(SomeTable(rows), rf.get("/?page=2&sort=-amount"), per_page=2)
    assert [name in table.body for name in ("r4", "r3", "r2", "r1", "r0")] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_nothing_is_no_row(rf: Any) -> None:
    assert prepare(SomeTable([]), rf.get("/")).body == ""


def test_headers_lead_to_the_other_order_and_keep_the_filters(rf: Any) -> None:
    head = prepare(SomeTable(ROWS), rf.get("/?q=a%26b&sort=-amount&q=c")).head
    assert '<a href="?q=a%26b&amp;q=c&amp;sort=name" hx-boost' in head
    assert 'aria-sort="descending"><a href="?q=a%26b&amp;q=c&amp;sort=amount"' in head
    assert head.count("<th ") == 5
    assert 'href="?sort=name"' in prepare(SomeTable(ROWS), rf.get("/")).head


def test_a_table_of_several_orders_by_its_own_parameter(rf: Any) -> None:
    head = prepare(SomeTable(ROWS, prefix="n-"), rf.get("/?n-sort=name&p-sort=x")).head
    assert 'aria-sort="ascending"><a href="?p-sort=x&amp;n-sort=-name"' in head


def test_a_row_that_repeats_is_written_once_per_language_and_wording(rf: Any) -> None:
    asked: list[str] = []

    class Repeating(PortalTable):
        name = TextColumn(verbose_name="Name")

        def render_name(self, value: str) -> str:
            asked.append(value)
            return value

    def body(rows: list[Row], repeats: str | None) -> str:
        table = prepare(Repeating(rows), rf.get("/"))
        table.repeats = repeats
        return table.body

    rows = [Row("a", 1), Row("b", 2)]
    first = body(rows, "units")
    assert body(rows[::-1], "units").count("<td") == 2
    assert asked == ["a", "b"]
    with override("zh-hans"):
        assert body(rows, "units") == first
    body(rows, "memory")
    body([Row("a", 1)], "units")  # an equal row is another row
    body(rows, None)
    assert asked == ["a", "b", "a", "b", "a", "b", "a", "a", "b"]
