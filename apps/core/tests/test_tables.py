"""The rows of a table as HTML: the same cells as django-tables2 makes, and nothing that is not escaped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

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
