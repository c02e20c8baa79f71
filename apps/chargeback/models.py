"""Rates, billing periods and the ledger. What is published or closed is never edited: something new takes over."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Team
from apps.chargeback.budget_models import Budget, BudgetCrossing, BudgetNotice
from apps.chargeback.use_models import TeamUse
from apps.core.quantity import plain
from apps.fleet.models import Cluster
from apps.usage.kinds import KindOfUnit

__all__ = [
    "PRICE_KEY",
    "BillingPeriod",
    "Budget",
    "BudgetCrossing",
    "BudgetNotice",
    "LedgerEntry",
    "Line",
    "ProvisionalLine",
    "RateGroupCluster",
    "RatePrice",
    "RateVersion",
    "TeamUse",
]


class RateVersion(models.Model):
    """A rate card: what one hour costs from `valid_from` on until the next published version. While it is a draft its
    prices can be edited; a published one never (the database refuses it): a new version takes over instead.
    `borrowed_factor` and `priority_factors` ({priority class: factor as text}) multiply each other. `idle`: who carries what
    nobody held, at the card's prices of that basis; without one it is not charged (`idle_shares`)."""

    class State(models.TextChoices):
        DRAFT = "draft", _("draft")
        PUBLISHED = "published", _("published")

    class Idle(models.TextChoices):
        PLATFORM = "platform", _("the platform carries it")
        PROPORTIONAL = "proportional", _("shared in proportion to what each team held")
        EVEN = "even", _("shared evenly")

    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.DRAFT)
    valid_from = models.DateTimeField(_("valid from"))
    currency = models.CharField(_("currency"), max_length=3, default="USD")
    borrowed_factor = models.DecimalField(
        _("factor of borrowed use"), max_digits=10, decimal_places=6, default=1
    )
    priority_factors = models.JSONField(_("factors by priority class"), default=dict, blank=True)
    idle = models.CharField(_("idle capacity"), max_length=12, choices=Idle.choices, default=Idle.PLATFORM)
    note = models.TextField(_("note"), blank=True)
    published_at = models.DateTimeField(null=True, editable=False)
    published_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, editable=False, related_name="+"
    )

    class Meta:
        verbose_name = _("rate card")
        verbose_name_plural = _("rate cards")
        ordering: ClassVar[list[str]] = ["-valid_from", "-pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["valid_from"], condition=models.Q(state="published"), name="rate_version_once"
            ),
            models.CheckConstraint(
                condition=models.Q(borrowed_factor__gte=0), name="rate_version_factor_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.currency} {self.valid_from:%Y-%m-%d %H:%M}Z ({self.get_state_display()})"


PRICE_KEY = ("basis", "cluster", "group", "model", "sharing_mode", "profile")
"""What a card has one price of at most."""


class RatePrice(models.Model):
    """What one hour of one unit (or of one whole card's worth) costs; the closest price wins (see `tariff`). It is of one
    cluster, of the clusters of one `group` of its card, or of any."""

    class Basis(models.TextChoices):
        RESERVED = "reserved", _("reserved quota")
        POD = "pod", _("bound pods")
        NOMINAL = "nominal", _("nominal quota")
        IDLE = "idle", _("idle capacity")

    class Per(models.TextChoices):
        UNIT = "unit", _("unit")
        CARD = "card", _("whole card")

    version = models.ForeignKey(RateVersion, on_delete=models.CASCADE, related_name="prices")
    basis = models.CharField(_("basis"), max_length=8, choices=Basis.choices, default=Basis.RESERVED)
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("cluster")
    )
    group = models.CharField(_("cluster group"), max_length=80, blank=True, db_default="")
    model = models.CharField(_("model"), max_length=120)
    sharing_mode = models.CharField(_("sharing mode"), max_length=20, blank=True)
    profile = models.CharField(_("profile"), max_length=120, blank=True)
    per = models.CharField(_("per"), max_length=4, choices=Per.choices, default=Per.UNIT)
    amount = models.DecimalField(_("price per hour"), max_digits=20, decimal_places=9)

    class Meta:
        verbose_name = _("price")
        verbose_name_plural = _("prices")
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["version", *PRICE_KEY],
                nulls_distinct=False,
                name="rate_price_of_group_once",
            ),
            models.CheckConstraint(
                condition=models.Q(cluster=None) | models.Q(group=""),
                name="rate_price_of_cluster_or_group",
                violation_error_message=_("A price is of a cluster or of a group of clusters, not of both."),
            ),
            models.CheckConstraint(condition=models.Q(amount__gte=0), name="rate_price_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.model} {self.profile}: {plain(self.amount)}"


class RateGroupCluster(models.Model):
    """A cluster that a rate card prices with others, by the name of their group; of each card it is in one at most."""

    version = models.ForeignKey(RateVersion, on_delete=models.CASCADE, related_name="group_clusters")
    group = models.CharField(_("cluster group"), max_length=80)
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="+", verbose_name=_("cluster")
    )

    class Meta:
        verbose_name = _("cluster of a group")
        verbose_name_plural = _("cluster groups")
        ordering: ClassVar[list[str]] = ["group", "cluster__slug"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["version", "cluster"], name="rate_group_cluster_once"),
            models.CheckConstraint(condition=~models.Q(group=""), name="rate_group_has_a_name"),
        ]

    def __str__(self) -> str:
        return f"{self.group}: {self.cluster}"


class BillingPeriod(models.Model):
    """A calendar month of `zone`, as [starts_at, ends_at) in UTC. A closed one never changes and is never opened again
    (the database refuses it). `totals`: {currency: sum of its statements}, `entries`: how many lines it has, `missing`: what
    is known to have no price or to have been seen by nobody, as {"unpriced" | "left_out": {resource: unit-hours}}; of an
    open period these are provisional, as of `updated_at`. `by_team`: {team's id, "" for nobody: its statement's {currency:
    total}}. `digest`: SHA-256 over all lines of a closed one; `reason`: why
    what is missing was accepted when it was closed; `names`: {"teams" | "clusters": {id: slug}} as they were then, so that
    what is told of a closed period does not change when somebody renames."""

    class State(models.TextChoices):
        OPEN = "open", _("open")
        CLOSED = "closed", _("closed")

    month = models.CharField(max_length=7, help_text="YYYY-MM")
    zone = models.CharField(max_length=64)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    state = models.CharField(max_length=6, choices=State.choices, default=State.OPEN)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    closed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    reason = models.TextField(blank=True)
    missing = models.JSONField(default=dict)
    totals = models.JSONField(default=dict)
    entries = models.BigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    by_team = models.JSONField(default=dict)
    names = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar[list[str]] = ["starts_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["month"], name="billing_period_once"),
            models.CheckConstraint(
                condition=models.Q(ends_at__gt=models.F("starts_at")), name="billing_period_forward"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.month} ({self.get_state_display()})"

    @property
    def is_closed(self) -> bool:
        return self.state == self.State.CLOSED


class Line(KindOfUnit):
    """What was held within [starts_at, ends_at), and what it costs. `period`: in which it is billed; `corrects`: the line of a
    closed period that it corrects (its unit-seconds and amount are then the difference), NULL with `correction` where
    there was none. `amount` is unrounded, to 18 digits; it is exactly unit_seconds × price × factor × weight / 3600, and
    NULL where there is no price. What a line names goes without foreign keys, which would be checked row by row: lines are
    only ever made of what is there, and what they name is refused by triggers to be deleted (`0007_ledger_keys`)."""

    correction = models.BooleanField(default=False)
    corrects = models.BigIntegerField(null=True)
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, db_constraint=False, db_index=False, related_name="+"
    )
    team = models.ForeignKey(
        Team, on_delete=models.PROTECT, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    cost_centre = models.CharField(max_length=40, blank=True)
    basis = models.CharField(max_length=8)
    kind = models.CharField(max_length=20)
    queue = models.CharField(max_length=253, blank=True)
    flavor = models.CharField(max_length=253, blank=True)
    resource = models.CharField(max_length=253)
    priority_class = models.CharField(max_length=253, blank=True)
    borrowed = models.BooleanField(default=False)
    seen = models.CharField(max_length=8)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    unit_seconds = models.DecimalField(max_digits=30, decimal_places=9)
    version = models.ForeignKey(
        RateVersion,
        on_delete=models.PROTECT,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    price = models.ForeignKey(
        RatePrice, on_delete=models.PROTECT, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    currency = models.CharField(max_length=3, blank=True)
    price_per_hour = models.DecimalField(max_digits=20, decimal_places=9, null=True)
    factor = models.DecimalField(max_digits=20, decimal_places=12, null=True)
    priced_over = models.BigIntegerField(null=True)
    priced_under = models.BigIntegerField(null=True)
    amount = models.DecimalField(max_digits=48, decimal_places=18, null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.starts_at:%Y-%m-%dT%HZ} {self.queue}"


class LedgerEntry(Line):
    """A line of a closed period. Immutable; `sequence` has no holes."""

    sequence = models.BigIntegerField(primary_key=True)
    period = models.ForeignKey(
        BillingPeriod, on_delete=models.PROTECT, db_constraint=False, db_index=False, related_name="lines"
    )

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["period", "sequence"], name="ledger_by_period"),
            models.Index(fields=["team", "sequence"], name="ledger_by_team"),
        ]


class ProvisionalLine(Line):
    """A line of an open period as it would be if it were closed now: all of a period's are computed anew each hour, numbered
    from 1 by `sequence`."""

    sequence = models.BigIntegerField()
    period = models.ForeignKey(
        BillingPeriod,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="provisional",
    )

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["period", "sequence"], name="provisional_line_once")
        ]
