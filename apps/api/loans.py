"""Who holds whose quota now: loans in which a queue of the reader's teams lends or borrows."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Instant, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.quotas import QUOTA_SOURCES, team_slugs, visible_slugs
from apps.api.schema import documented
from apps.fleet.filters import OwnerForm
from apps.quotas.loans import comes_back, loan_rows
from apps.quotas.rows import LoanRow

DIRECTIONS = [("", _("any")), ("lent", _("lent")), ("borrowed", _("borrowed"))]


class LoanForm(OwnerForm):
    """`direction`: seen from the queues of `team`, or of the reader's teams."""

    direction = forms.ChoiceField(label=_("Direction"), required=False, choices=DIRECTIONS)
    everything = forms.BooleanField(label=_("Also CPU and memory"), required=False)

    def keep(self, rows: list[LoanRow], team_ids: list[int] | None) -> list[LoanRow]:
        """Only after `is_valid()`. A reader of all teams stands on both sides of every loan."""
        direction = self.cleaned_data["direction"]
        return [
            row
            for row in rows
            if (row.accelerator or self.cleaned_data["everything"])
            and (
                team_ids is None
                or not direction
                or (row.lends(team_ids) if direction == "lent" else row.borrows(team_ids))
            )
        ]


class LoanSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`amount` of the lender's quota that the borrower, a ClusterQueue, holds. Kueue keeps no such book: what is borrowed is
    laid on the cohort's own quota first, then on what queues leave unused. Of the other party only name and amount
    are said; teams that the reader may not see stay unnamed."""

    cluster = Text(source="cluster.slug")
    lender_kind = Text(help_text='"ClusterQueue", or "Cohort" for a cohort\'s own quota')
    lender = Text()
    lender_teams = serializers.SerializerMethodField()
    borrower = Text()
    borrower_teams = serializers.SerializerMethodField()
    flavor = Text()
    resource = Text()
    unit = Text()
    is_accelerator = serializers.BooleanField(source="accelerator", read_only=True)
    amount = DecimalText()
    since = Instant(allow_null=True, help_text="Not before this moment; null: not noted yet.")
    reclaim_within_cohort = Text(source="reclaim", help_text='The lender\'s policy; "" of a cohort.')
    comes_back = serializers.SerializerMethodField(help_text="In words, in the language of the request.")

    def get_lender_teams(self, row: LoanRow) -> list[str]:
        return visible_slugs(row.lender_teams, self.context["slugs"])

    def get_borrower_teams(self, row: LoanRow) -> list[str]:
        return visible_slugs(row.borrower_teams, self.context["slugs"])

    def get_comes_back(self, row: LoanRow) -> str:
        return comes_back(row)


@documented(operation="quota_loans", summary="Who lends quota to whom")
class LoansView(ListView):
    route = "quota-loans"
    item = LoanSerializer
    filter_class = LoanForm
    needs = QUOTA_SOURCES
    key_shape = (int, str, str, str, str, str)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[LoanRow]:
        team_ids = reading.form.narrowed_team_ids()
        rows = loan_rows(now=reading.now, clusters=reading.clusters, team_ids=team_ids)
        return page_of_rows(reading.form.keep(rows, team_ids), key=loan_key, after=after, size=size)

    def context(self, reading: Reading) -> dict[str, Any]:
        return {"reading": reading, "slugs": team_slugs(reading)}


def loan_key(row: LoanRow) -> Key:
    return (row.cluster.pk, row.lender_kind, row.lender, row.borrower, row.flavor, row.resource)
