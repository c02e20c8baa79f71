"""Tables of a team's page: quota in words, loans in both directions, waiting work in queue order.

Input: `QuotaRow`s with the loans of their queues, `LoanRow`s, `WaitingRow`s of a `QueuedList`.
Invariant: of the other party of a loan only name and amount are shown; it is a link only to who may see that queue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.admissions.estimate_words import estimate_text
from apps.admissions.selectors import WaitingRow
from apps.console.links import address, queue_url
from apps.console.quota_table import AmountColumn, QuotaTable, above
from apps.console.waiting_table import WaitingTable
from apps.core.formats import NOT_APPLICABLE, listed_apart
from apps.core.tables import BarColumn, NumberColumn, PortalTable, TextColumn, TimeColumn
from apps.quotas.loans import comes_back
from apps.quotas.rows import LoanRow, QuotaRow
from apps.quotas.sentences import amount_text, asides, describe, noun_of
from apps.quotas.standing_words import lack_text, position_source_label


class TeamQuotaTable(QuotaTable):
    """Each row says in words what its bar shows; all numbers are in the CSV and in the table of numbers. On a phone flavor
    and bar stand in the cells of queue and words."""

    caption = _("What the team may use, by queue and flavor")

    flavor = TextColumn(verbose_name=_("Flavor"), classes="name", hide_small=True, empty_values=())
    bar = BarColumn(verbose_name=_("Use, nominal (mark), ceiling"), accessor="reserved", hide_small=True)
    reserved = AmountColumn(verbose_name=_("Held"), hide_small=True)
    available = AmountColumn(verbose_name=_("Free now"), absent=NOT_APPLICABLE, hide_small=True)
    pending = AmountColumn(verbose_name=_("Waiting"), hide_small=True)
    admitted = AmountColumn(verbose_name=_("Running"), visible=False)
    guaranteed = AmountColumn(verbose_name=_("Guaranteed"), visible=False, absent=NOT_APPLICABLE)
    borrowed = AmountColumn(verbose_name=_("Borrowed"), visible=False, absent=NOT_APPLICABLE)
    lent = AmountColumn(verbose_name=_("Lent"), visible=False, absent=NOT_APPLICABLE)
    nominal = AmountColumn(verbose_name=_("Nominal"), visible=False, absent=NOT_APPLICABLE)
    ceiling = AmountColumn(verbose_name=_("Ceiling"), visible=False, absent=_("no limit"))
    sentence = TextColumn(verbose_name=_("In words"), classes="wide", accessor="queue", orderable=False)

    class Meta(QuotaTable.Meta):
        sequence = (
            "queue",
            "cluster",
            "flavor",
            "bar",
            "sentence",
            "reserved",
            "available",
            "pending",
            "...",
        )

    def __init__(
        self, rows: Sequence[QuotaRow], *, team: str, loans: Sequence[LoanRow] = (), **kwargs: Any
    ) -> None:
        self.team, self.loans = team, loans
        # What a row says rests on its loans, too, and it leads further down on the team's page.
        self.repeats = (team, tuple(loans))
        super().__init__(rows, **kwargs)

    def render_reserved(self, record: QuotaRow) -> SafeString:
        return self._rows_behind(record, record.reserved, "h-running")

    def render_pending(self, record: QuotaRow) -> SafeString:
        if record.pending_on:  # waiting work has no flavor yet: it is counted once
            return format_html(
                '<span class="muted">{}</span>', _("at %(flavor)s") % {"flavor": record.pending_on}
            )
        return self._rows_behind(record, record.pending, "h-waiting")

    def _rows_behind(self, row: QuotaRow, amount: Decimal, section: str) -> SafeString:
        """A total that leads to the work that it adds up, further down on the page."""
        if not amount:
            return format_html('<span class="muted">{}</span>', amount_text(row.resource, amount))
        url = address("team", self.team, cluster=row.cluster.slug, queue=row.queue)
        return format_html('<a href="{}#{}">{}</a>', url, section, amount_text(row.resource, amount))

    def render_queue(self, record: QuotaRow) -> SafeString:
        return format_html(
            '<a href="{}">{}</a><br><span class="muted hide-s">{}</span><span class="show-s muted">{} · {}</span>',
            queue_url(record.cluster.slug, record.kind, record.queue),
            record.queue,
            above(record),
            record.flavor or NOT_APPLICABLE,
            noun_of(record),
        )

    def render_sentence(self, record: QuotaRow) -> SafeString:
        more = asides(record)
        return format_html(
            '<span class="show-s">{}</span>{}<span class="show-s muted">{}</span>{}',
            self.render_bar(record),
            describe(record, self.loans),
            _("Free now: %(n)s") % {"n": self._free(record)},
            format_html('<br><span class="muted">{}</span>', listed_apart(more)) if more else "",
        )

    @staticmethod
    def _free(row: QuotaRow) -> str:
        if row.available is None:
            return str(_("no limit"))
        if row.available < 0:
            return str(_("none, over by %(n)s") % {"n": amount_text(row.resource, -row.available)})
        return amount_text(row.resource, row.available)

    def value_sentence(self, record: QuotaRow) -> str:
        return describe(record, self.loans)


class NumbersTable(QuotaTable):
    """Every number of a row side by side."""

    caption = _("All numbers by queue and flavor")
    guaranteed = AmountColumn(verbose_name=_("Guaranteed"), absent=NOT_APPLICABLE, hide_small=True)

    class Meta(QuotaTable.Meta):
        sequence = ("queue", "cluster", "flavor", "nominal", "guaranteed", "...")
        exclude = ("bar",)


class LoanTable(PortalTable):
    """Loans of one direction. `seen`: the teams that the reader may see, None all."""

    lender = TextColumn(verbose_name=_("Lender"), classes="name")
    lender_kind = TextColumn(verbose_name=_("Lender's kind"), visible=False)
    borrower = TextColumn(verbose_name=_("Borrower"), classes="name")
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    flavor = TextColumn(verbose_name=_("Flavor"), hide_small=True)
    resource = TextColumn(verbose_name=_("Resource"), visible=False)
    amount = NumberColumn(verbose_name=_("Amount"))
    since = TimeColumn(verbose_name=_("Since, at the earliest"), hide_small=True, default=_("not noted yet"))
    comes_back = TextColumn(
        verbose_name=_("How it comes back"), accessor="reclaim", orderable=False, empty_values=()
    )
    reclaim = TextColumn(verbose_name="reclaimWithinCohort", visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing.")

    def __init__(self, rows: Iterable[LoanRow], *, seen: Collection[int] | None, **kwargs: Any) -> None:
        self.seen = seen
        super().__init__(list(rows), **kwargs)

    def render_lender(self, record: LoanRow) -> SafeString | str:
        return self._party(record, record.lender_kind, record.lender, record.lender_teams)

    def render_borrower(self, record: LoanRow) -> SafeString | str:
        return self._party(record, "ClusterQueue", record.borrower, record.borrower_teams)

    def _party(self, row: LoanRow, kind: str, name: str, teams: Collection[int]) -> SafeString | str:
        may_see = self.seen is None or not set(self.seen).isdisjoint(teams)
        said = (
            format_html('<a href="{}">{}</a>', queue_url(row.cluster.slug, kind, name), name)
            if may_see
            else name
        )
        if kind == "Cohort":
            return format_html('{}<br><span class="muted">{}</span>', said, _("the cohort's own quota"))
        return said

    @staticmethod
    def _with_own(other: SafeString | str, row: LoanRow, own: str) -> SafeString:
        """The other party, and on a phone the team's own queue and the flavor below it."""
        return format_html('{}<span class="show-s muted">{} · {}</span>', other, own, row.flavor)

    def render_flavor(self, record: LoanRow) -> SafeString:
        return format_html('{}<br><span class="muted">{}</span>', record.flavor, noun_of(record))

    def value_flavor(self, record: LoanRow) -> str:
        return record.flavor

    def render_amount(self, record: LoanRow) -> str:
        return amount_text(record.resource, record.amount)

    def render_comes_back(self, record: LoanRow) -> str:
        return comes_back(record)

    def value_comes_back(self, record: LoanRow) -> str:
        return comes_back(record)


class LentTable(LoanTable):
    caption = _("Lent to others")
    file_name = "lent"
    lender = TextColumn(verbose_name=_("Lender"), classes="name", hide_small=True)

    class Meta(LoanTable.Meta):
        empty_text = _("Nothing of this team's quota is lent now.")

    def render_borrower(self, record: LoanRow) -> SafeString:
        return self._with_own(super().render_borrower(record), record, record.lender)


class BorrowedTable(LoanTable):
    caption = _("Borrowed from others")
    file_name = "borrowed"
    borrower = TextColumn(verbose_name=_("Borrower"), classes="name", hide_small=True)

    class Meta(LoanTable.Meta):
        sequence = ("borrower", "lender", "...")
        empty_text = _("This team borrows nothing now.")

    def render_lender(self, record: LoanRow) -> SafeString:
        return self._with_own(super().render_lender(record), record, record.borrower)


class QueuedTable(WaitingTable):
    """Waiting work in the order of its queues; "said by Kueue" is its visibility API's word."""

    caption = _("Waiting work in queue order")

    position = NumberColumn(verbose_name=_("Position"), accessor="position__position", orderable=False)
    position_source = TextColumn(
        verbose_name=_("Position by"), accessor="position__source", visible=False, orderable=False
    )
    local_position = NumberColumn(
        verbose_name=_("Position in the LocalQueue"),
        accessor="position__local_position",
        visible=False,
        orderable=False,
    )
    devices = TextColumn(verbose_name=_("Needs"), classes="num", orderable=False, hide_small=True)
    lacking = TextColumn(verbose_name=_("Lacks"), orderable=False, empty_values=())
    estimate = TextColumn(verbose_name=_("Start estimate"), orderable=False, empty_values=(), hide_small=True)
    estimate_low = TextColumn(
        verbose_name=_("Earliest start in seconds"), accessor="estimate__low", visible=False, orderable=False
    )
    estimate_high = TextColumn(
        verbose_name=_("Latest start in seconds"), accessor="estimate__high", visible=False, orderable=False
    )
    estimate_sample = TextColumn(
        verbose_name=_("Comparable waits"), accessor="estimate__sample", visible=False, orderable=False
    )

    class Meta(WaitingTable.Meta):
        sequence = (
            *("position", "name", "namespace", "cluster_name", "devices", "lacking", "estimate", "cause"),
            "...",
        )

    def render_position(self, record: WaitingRow) -> SafeString | str:
        if record.position is None:
            return NOT_APPLICABLE
        return format_html(
            '{}<br><span class="muted">{}</span>',
            record.position.position,
            position_source_label(record.position.source),
        )

    def value_position(self, record: WaitingRow) -> int | None:
        return record.position.position if record.position else None

    def render_lacking(self, record: WaitingRow) -> SafeString:
        needs = _("needs %(what)s") % {"what": self.render_devices(record)}
        return format_html(
            '{}<span class="show-s muted">{}</span>', lack_text(record.lacking, record.blocked), needs
        )

    def value_lacking(self, record: WaitingRow) -> str:
        return lack_text(record.lacking, record.blocked)

    def render_estimate(self, record: WaitingRow) -> str:
        return estimate_text(record.estimate)

    def value_estimate(self, record: WaitingRow) -> str:
        return estimate_text(record.estimate)
