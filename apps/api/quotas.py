"""Quota per queue, flavor and resource, of the queues that the reader's teams own or use."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.accounts.selectors import visible_teams
from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.observations.models import Source
from apps.quotas.filters import QueueFilterForm
from apps.quotas.rows import QuotaRow
from apps.quotas.selectors import quota_rows
from apps.quotas.sentences import describe

QUOTA_SOURCES = (Source.KUEUE.value, Source.VOLCANO.value)


class QuotaSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """All numbers are in `unit` of `resource`; null is not said or not applicable, never zero. `available` is
    negative when over-used; `pending_on` names the flavor that counts the queue's waiting work of this resource."""

    cluster = Text(source="cluster.slug")
    system = Text()
    kind = Text()
    queue = Text()
    cohort = Text()
    flavor = Text()
    resource = Text()
    unit = Text()
    is_accelerator = serializers.BooleanField(source="accelerator", read_only=True)
    is_listed = serializers.BooleanField(source="listed", read_only=True)
    teams = serializers.SerializerMethodField()
    nominal = DecimalText(allow_null=True)
    borrowing_limit = DecimalText(allow_null=True)
    lending_limit = DecimalText(allow_null=True)
    reserved = DecimalText()
    admitted = DecimalText()
    borrowed = DecimalText(allow_null=True)
    lent = DecimalText(allow_null=True)
    available = DecimalText(allow_null=True)
    ceiling = DecimalText(allow_null=True)
    over = DecimalText()
    pending = DecimalText()
    pending_on = Text()
    waiting_workloads = serializers.IntegerField(source="waiting", read_only=True)
    capability = DecimalText(allow_null=True)
    deserved = DecimalText(allow_null=True)
    guarantee = DecimalText(allow_null=True)
    guaranteed = DecimalText(allow_null=True, help_text="The part of the nominal quota that is never lent.")
    own_nominal = DecimalText(allow_null=True, help_text="A cohort's own part of its nominal sum.")
    real_capability = DecimalText(allow_null=True)
    plugin = Text()
    plugin_from = Text(
        help_text='Where the plugin is known from: the ConfigMap of the scheduler and its key, "admin", "hierarchy", or "".'
    )
    is_active = serializers.BooleanField(source="active", read_only=True)
    is_stopped = serializers.BooleanField(source="stopped", read_only=True)
    reason = Text()
    message = Text()
    status_reserved = DecimalText(allow_null=True, help_text="What the queue's own status says.")
    status_differs = serializers.BooleanField(source="mismatch", read_only=True)
    sentence = serializers.SerializerMethodField(
        help_text="The row in words, in the language of the request."
    )

    def get_teams(self, row: QuotaRow) -> list[str]:
        return visible_slugs(row.team_ids, self.context["slugs"])

    def get_sentence(self, row: QuotaRow) -> str:
        return describe(row)


def team_slugs(reading: Reading) -> dict[int, str]:
    """Slugs of the teams that the reader may see; others that share a queue stay unnamed."""
    rows: Any = visible_teams(reading.user).values_list("pk", "slug")
    return dict(rows)


def visible_slugs(team_ids: tuple[int, ...], slugs: dict[int, str]) -> list[str]:
    return sorted(slugs[team_id] for team_id in team_ids if team_id in slugs)


@documented(operation="quotas", summary="Quota and its use per queue, flavor and resource")
class QuotasView(ListView):
    route = "quotas"
    item = QuotaSerializer
    filter_class = QueueFilterForm
    needs = QUOTA_SOURCES
    key_shape = (int, str, str, str, str)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[QuotaRow]:
        rows = quota_rows(
            now=reading.now, clusters=reading.clusters, team_ids=reading.form.narrowed_team_ids()
        )
        return page_of_rows(reading.form.narrowed_rows(rows), key=quota_key, after=after, size=size)

    def context(self, reading: Reading) -> dict[str, Any]:
        return {"reading": reading, "slugs": team_slugs(reading)}


def quota_key(row: QuotaRow) -> Key:
    return (row.cluster.pk, row.system, row.queue, row.flavor, row.resource)
