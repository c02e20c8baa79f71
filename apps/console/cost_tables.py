"""Tables of what was charged: by team, by line of a statement, and the single hours behind one. Input: rows of
`apps.chargeback`; output: HTML and CSV, where amounts are plain digits and times UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.chargeback.budget import Standing
from apps.chargeback.overview import BASIS_LABELS, ChargeLine, ModelCost, TeamCost
from apps.chargeback.statements import StatementLine
from apps.console.links import address
from apps.console.use_tables import SECONDS_PER_HOUR, unit_words
from apps.core.formats import listed, money_text, number_text, quantities_text, time_text
from apps.core.quantity import plain
from apps.core.tables import LinkColumn, NumberColumn, PortalTable, TextColumn, TimeColumn
from apps.fleet.selectors import UNBOUND

UNPRICED = _("no price")


def totals_text(totals: Mapping[str, Decimal]) -> str:
    """ "1,530.82 USD, 12 JPY"; what has no total costs nothing that has a price."""
    parts = [f"{money_text(amount)} {currency}" for currency, amount in sorted(totals.items())]
    return listed(parts) if parts else str(_("nothing is charged"))


class MoneyColumn(NumberColumn):
    """An amount in the row's currency; the CSV has plain digits."""

    def render(self, value: Any) -> str | SafeString:
        return (
            format_html('<span class="muted">{}</span>', self.absent) if value is None else money_text(value)
        )


def _percent_text(number: int | None) -> str:
    return "–" if number is None else f"{number} %"


def _month_url(month: str, slug: str) -> str:
    return address("statement", month, slug or UNBOUND)


class TeamCostTable(PortalTable):
    """One row per team and currency; the models that cost most have columns of their own."""

    caption = _("What each team is charged")
    file_name = "chargeback-teams"

    name = LinkColumn(verbose_name=_("Team"), classes="name", empty_values=(), url=lambda _row: "")
    amount = MoneyColumn(verbose_name=_("Cost"), absent=UNPRICED)
    currency = TextColumn(verbose_name=_("Currency"))
    budget = TextColumn(verbose_name=_("Budget"), classes="num", empty_values=(), orderable=False)
    used = TextColumn(verbose_name=_("Spent of it"), classes="num", empty_values=(), orderable=False)
    forecast = TextColumn(
        verbose_name=_("By the month's end at this pace"),
        classes="num",
        empty_values=(),
        orderable=False,
        hide_small=True,
    )
    before = MoneyColumn(verbose_name=_("Month before"), absent="–", hide_small=True)
    change = MoneyColumn(verbose_name=_("Difference"), absent="–", hide_small=True)
    unpriced = TextColumn(
        verbose_name=_("Unit-hours without a price"), empty_values=(), hide_small=True, orderable=False
    )
    slug = TextColumn(verbose_name=_("Slug"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing was held in this period.")
        sequence = (
            "name",
            "amount",
            "currency",
            "budget",
            "used",
            "forecast",
            "...",
            "before",
            "change",
            "unpriced",
            "slug",
        )

    def __init__(
        self,
        rows: Sequence[TeamCost],
        *,
        month: str,
        models: Sequence[str],
        budgets: Mapping[int, Standing],
        **kwargs: Any,
    ) -> None:
        own = [(f"model_{place}", _of_model(model)) for place, model in enumerate(models)]
        super().__init__(rows, extra_columns=own, **kwargs)
        self.month, self.budgets = month, budgets
        if not budgets:
            for name in ("budget", "used", "forecast"):
                self.columns.hide(name)

    def _budget_of(self, row: TeamCost) -> Standing | None:
        """Beside the cost in its currency, or beside use that has no price at all."""
        found = None if row.team_id is None else self.budgets.get(row.team_id)
        return found if found is not None and row.currency in ("", found.plan.currency) else None

    def value_budget(self, record: TeamCost) -> Decimal | None:
        found = self._budget_of(record)
        return None if found is None else found.plan.amount

    def render_budget(self, record: TeamCost) -> str:
        amount = self.value_budget(record)
        return "–" if amount is None else money_text(amount)

    def value_used(self, record: TeamCost) -> int | None:
        found = self._budget_of(record)
        return None if found is None else found.percent

    def render_used(self, record: TeamCost) -> str:
        return _percent_text(self.value_used(record))

    def value_forecast(self, record: TeamCost) -> int | None:
        found = self._budget_of(record)
        return None if found is None else found.forecast_percent

    def render_forecast(self, record: TeamCost) -> str:
        return _percent_text(self.value_forecast(record))

    def render_name(self, record: TeamCost) -> SafeString:
        text = record.name or _("no team")
        return format_html('<a href="{}">{}</a>', _month_url(self.month, record.slug), text)

    def value_name(self, record: TeamCost) -> str:
        return record.name

    def render_unpriced(self, record: TeamCost) -> str:
        return quantities_text(record.unpriced)

    def value_unpriced(self, record: TeamCost) -> str:
        return "; ".join(f"{name}={hours:f}" for name, hours in record.unpriced.items())


def _of_model(model: str) -> MoneyColumn:
    return MoneyColumn(
        verbose_name=model, accessor=f"models__{model}", absent="–", hide_small=True, orderable=False
    )


class StatementTable(PortalTable):
    """The lines of a statement, each rounded once."""

    caption = _("Lines of the statement")
    file_name = "statement"

    model = TextColumn(verbose_name=_("Model"), accessor="charged__model", classes="name")
    unit = TextColumn(verbose_name=_("Unit"), empty_values=(), orderable=False)
    basis = TextColumn(verbose_name=_("Basis"), accessor="charged__basis", hide_small=True)
    unit_hours = NumberColumn(verbose_name=_("Unit-hours"), places=2)
    price = TextColumn(
        verbose_name=_("Price per hour"),
        accessor="charged__price_per_hour",
        classes="num",
        empty_values=(),
        hide_small=True,
    )
    factor = TextColumn(
        verbose_name=_("Factor"), accessor="charged__factor", classes="num", empty_values=(), hide_small=True
    )
    amount = MoneyColumn(verbose_name=_("Cost"), absent=UNPRICED)
    currency = TextColumn(verbose_name=_("Currency"))
    correction = TextColumn(verbose_name=_("Correction"), accessor="charged__correction", visible=False)
    resource = TextColumn(verbose_name=_("Resource"), accessor="charged__resource", visible=False)
    sharing_mode = TextColumn(verbose_name=_("Sharing mode"), accessor="charged__sharing_mode", visible=False)
    profile = TextColumn(verbose_name=_("Profile"), accessor="charged__profile", visible=False)
    entries = NumberColumn(verbose_name=_("Lines of the ledger"), places=0, visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("The team held nothing in this period.")

    def render_model(self, record: StatementLine) -> SafeString | str:
        text = record.charged.model or _("model not known")
        if not record.charged.correction:
            return str(text)
        return format_html('{} <span class="sev warn">{}</span>', text, _("correction"))

    def value_model(self, record: StatementLine) -> str:
        return record.charged.model

    def render_unit(self, record: StatementLine) -> str:
        charged = record.charged
        return unit_words(charged.resource, charged.sharing_mode, charged.profile)

    def value_unit(self, record: StatementLine) -> str:
        return record.charged.profile or record.charged.resource

    def render_basis(self, value: str) -> str:
        return str(BASIS_LABELS.get(value, value))

    def value_basis(self, record: StatementLine) -> str:
        return record.charged.basis

    def render_price(self, record: StatementLine) -> str:
        """A price of a whole card is shown with the part of it that the unit is."""
        charged = record.charged
        if charged.price_per_hour is None:
            return "–"
        text = number_text(charged.price_per_hour, places=6)
        return text if charged.weight in (None, 1) else f"{text} × {charged.weight}"

    def value_price(self, record: StatementLine) -> Decimal | None:
        return record.charged.price_per_hour

    def render_factor(self, value: Decimal | None) -> str:
        return "–" if value is None else number_text(value, places=6)


class ModelCostTable(PortalTable):
    """What a team's models cost, against the month before."""

    caption = _("By model, against the month before")
    file_name = "statement-models"

    model = TextColumn(verbose_name=_("Model"), classes="name")
    amount = MoneyColumn(verbose_name=_("Cost"), absent="–")
    before = MoneyColumn(verbose_name=_("Month before"), absent="–")
    change = MoneyColumn(verbose_name=_("Difference"), absent="–")
    currency = TextColumn(verbose_name=_("Currency"))

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing of either month has a price.")

    def render_model(self, record: ModelCost) -> str:
        return record.model or str(_("model not known"))


class LinesTable(PortalTable):
    """Hour by hour what a statement sums up. Amounts are unrounded."""

    caption = _("Hours behind the statement")
    file_name = "charges"

    sequence = NumberColumn(verbose_name=_("No."), places=0)
    starts_at = TimeColumn(verbose_name=_("From"))
    ends_at = TimeColumn(verbose_name=_("To"), hide_small=True)
    cluster = TextColumn(
        verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True, orderable=False
    )
    queue = TextColumn(verbose_name=_("Queue"))
    flavor = TextColumn(verbose_name=_("Flavor"), hide_small=True)
    model = TextColumn(verbose_name=_("Model"), hide_small=True)
    unit_seconds = NumberColumn(verbose_name=_("Unit-hours"), places=3)
    price_per_hour = TextColumn(verbose_name=_("Price per hour"), classes="num", empty_values=())
    factor = TextColumn(verbose_name=_("Factor"), classes="num", empty_values=(), hide_small=True)
    amount = TextColumn(verbose_name=_("Cost"), classes="num", empty_values=())
    currency = TextColumn(verbose_name=_("Currency"))
    resource = TextColumn(verbose_name=_("Resource"), visible=False)
    sharing_mode = TextColumn(verbose_name=_("Sharing mode"), visible=False)
    profile = TextColumn(verbose_name=_("Profile"), visible=False)
    basis = TextColumn(verbose_name=_("Basis"), visible=False)
    cost_centre = TextColumn(verbose_name=_("Cost centre"), visible=False)
    borrowed = TextColumn(verbose_name=_("Borrowed"), visible=False)
    correction = TextColumn(verbose_name=_("Correction"), visible=False)
    corrects = TextColumn(verbose_name=_("Corrects"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("There is no such line.")

    def render_starts_at(self, record: ChargeLine) -> SafeString:
        """To the work that held it, as far as single observations are kept."""
        at, text = record.starts_at, time_text(record.starts_at)
        if record.basis not in ("reserved", "pod"):
            return format_html('<time datetime="{}">{}</time>', at.isoformat(), text)
        url = address(
            "held_work",
            cluster=record.cluster.slug,
            team=record.team.slug if record.team else UNBOUND,
            queue=record.queue,
            basis=record.basis,
            **{"from": f"{at:%Y-%m-%dT%H:%M:%SZ}", "to": f"{record.ends_at:%Y-%m-%dT%H:%M:%SZ}"},
        )
        return format_html('<a href="{}"><time datetime="{}">{}</time></a>', url, at.isoformat(), text)

    def render_unit_seconds(self, record: ChargeLine) -> str:
        return number_text(record.unit_seconds / SECONDS_PER_HOUR, places=3)

    def value_unit_seconds(self, record: ChargeLine) -> str:
        return plain(record.unit_seconds / SECONDS_PER_HOUR)

    def value_amount(self, record: ChargeLine) -> str:
        return "" if record.amount is None else plain(record.amount)

    def value_cluster(self, record: ChargeLine) -> str:
        return record.cluster.slug

    def render_price_per_hour(self, value: Decimal | None) -> str:
        return "–" if value is None else number_text(value, places=6)

    def render_factor(self, value: Decimal | None) -> str:
        return "–" if value is None else number_text(value, places=6)

    def render_amount(self, value: Decimal | None) -> SafeString | str:
        if value is None:
            return format_html('<span class="muted">{}</span>', UNPRICED)
        return number_text(value, places=6)
