"""One queue or cohort: place in the tree, quotas, policy in words, conditions with all causes, events.

Kinds: ClusterQueue, Cohort, VolcanoQueue, and LocalQueue with `?namespace=`. Its work is at /workloads/?queue=.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.http import Http404
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.base import DetailView, Reading
from apps.api.fields import DecimalText, Instant, Text
from apps.api.quotas import QUOTA_SOURCES, QuotaSerializer, team_slugs, visible_slugs
from apps.api.schema import documented
from apps.observations.models import Source
from apps.quotas.policy_words import share_text
from apps.quotas.queue_detail import EVENTS_SHOWN, LocalQueueRow, QueueDetail, queue_detail, queue_events


class QueueDetailForm(forms.Form):
    """`raw` also asks for the object as the cluster serves it."""

    namespace = forms.CharField(label=_("Namespace of a LocalQueue"), required=False, max_length=63)
    raw = forms.BooleanField(label=_("Also the object as served"), required=False)

    def __init__(self, data: Mapping[str, Any], *, now: datetime, team_ids: list[int] | None = None) -> None:
        super().__init__(data)


class TreeNodeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A node of the tree."""

    kind = Text()
    name = Text()


class PolicySerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One decision of the spec. `value` is as written, "" where the spec leaves it out; `text` says what it means."""

    code = Text()
    value = Text()
    text = Text()


class CauseSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Why nothing new is admitted; `names` are the objects that the cause is about."""

    code = Text()
    text = Text()
    names = serializers.ListField(child=Text(), read_only=True)


class ConditionSerializer(serializers.Serializer):  # type: ignore[type-arg]
    type = Text()
    status = Text()
    reason = Text()
    message = Text()
    since = Text(allow_null=True)


class QueueEventSerializer(serializers.Serializer):  # type: ignore[type-arg]
    type = Text()
    reason = Text()
    message = Text()
    count = serializers.IntegerField(read_only=True)
    first_at = Instant(allow_null=True)
    last_at = Instant(allow_null=True)


class LocalQueueSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """The counts are those of its own status; null where it says none."""

    namespace = Text()
    name = Text()
    team = serializers.SerializerMethodField()
    stop_policy = Text()
    is_active = serializers.BooleanField(source="active", read_only=True, allow_null=True)
    reason = Text()
    message = Text()
    pending = serializers.IntegerField(read_only=True, allow_null=True)
    reserving = serializers.IntegerField(read_only=True, allow_null=True)
    admitted = serializers.IntegerField(read_only=True, allow_null=True)

    def get_team(self, row: LocalQueueRow) -> str | None:
        slugs: dict[int, str] = self.context["slugs"]
        return slugs.get(row.team_id or 0)


class QueueDetailSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`is_whole` false: it lies above the reader's queues and shows sums only; policy, conditions, events and `raw` are
    then empty. `quotas` of a LocalQueue are those of the ClusterQueue that it `leads_to`. `raw` is null unless
    asked for, and where the object as served was not kept."""

    cluster = Text(source="cluster.slug")
    kind = Text()
    namespace = Text()
    name = Text()
    is_whole = serializers.BooleanField(source="whole", read_only=True)
    leads_to = Text()
    path = TreeNodeSerializer(many=True, read_only=True, help_text="The nodes above, root first.")
    siblings = TreeNodeSerializer(many=True, read_only=True)
    children = serializers.SerializerMethodField()
    teams = serializers.SerializerMethodField()
    is_active = serializers.BooleanField(source="node.active", read_only=True, default=None, allow_null=True)
    is_stopped = serializers.BooleanField(
        source="node.stopped", read_only=True, default=None, allow_null=True
    )
    is_in_cycle = serializers.BooleanField(source="node.in_cycle", read_only=True, default=False)
    waiting_workloads = serializers.IntegerField(
        source="node.waiting", read_only=True, default=None, allow_null=True
    )
    weighted_share = DecimalText(source="node.weighted_share", default=None, allow_null=True)
    weighted_share_text = serializers.SerializerMethodField()
    quotas = serializers.SerializerMethodField()
    policy = PolicySerializer(source="policies", many=True, read_only=True)
    causes = CauseSerializer(many=True, read_only=True)
    conditions = serializers.SerializerMethodField()
    local_queues = LocalQueueSerializer(many=True, read_only=True)
    local_queues_of_others = serializers.IntegerField(read_only=True)
    events = serializers.SerializerMethodField()
    command = serializers.SerializerMethodField(help_text="Reads the object with kubectl.")
    raw = serializers.SerializerMethodField()

    @extend_schema_field(TreeNodeSerializer(many=True))
    def get_children(self, detail: QueueDetail) -> list[dict[str, Any]]:
        below = detail.node.children if detail.node is not None and detail.kind != "LocalQueue" else ()
        return _data(TreeNodeSerializer(below, many=True))

    @extend_schema_field(serializers.ListField(child=Text()))
    def get_teams(self, detail: QueueDetail) -> list[str]:
        if detail.kind == "LocalQueue":
            ids = tuple(row.team_id for row in detail.local_queues if row.team_id is not None)
        else:
            ids = detail.node.team_ids if detail.node is not None else ()
        return visible_slugs(ids, self.context["slugs"])

    def get_weighted_share_text(self, detail: QueueDetail) -> str:
        node = detail.node
        return share_text(node.weighted_share) if node is not None and node.system == "kueue" else ""

    @extend_schema_field(QuotaSerializer(many=True))
    def get_quotas(self, detail: QueueDetail) -> list[dict[str, Any]]:
        rows = detail.node.rows if detail.node is not None else ()
        return _data(QuotaSerializer(rows, many=True, context=self.context))

    @extend_schema_field(ConditionSerializer(many=True))
    def get_conditions(self, detail: QueueDetail) -> list[dict[str, Any]]:
        return [
            {"type": kind, **{key: found.get(key) for key in ("status", "reason", "message", "since")}}
            for kind, found in detail.conditions.items()
        ]

    @extend_schema_field(QueueEventSerializer(many=True))
    def get_events(self, detail: QueueDetail) -> list[dict[str, Any]]:
        return _data(QueueEventSerializer(queue_events(detail)[:EVENTS_SHOWN], many=True))

    def get_command(self, detail: QueueDetail) -> str:
        return detail.command if detail.object is not None else ""

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_raw(self, detail: QueueDetail) -> dict[str, Any] | None:
        asked = self.context["reading"].form.cleaned_data["raw"]
        return detail.raw or None if asked else None


def _data(serializer: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = serializer.data
    return found


@documented(operation="queue", summary="One queue or cohort with its policy in words")
class QueueView(DetailView):
    route = "queues"
    item = QueueDetailSerializer
    filter_class = QueueDetailForm
    needs = (*QUOTA_SOURCES, Source.EVENTS.value)

    def find(self, reading: Reading, **kwargs: str) -> QueueDetail:
        cluster = next((c for c in reading.clusters if c.slug == kwargs["cluster"]), None)
        found = None
        if cluster is not None:
            found = queue_detail(
                now=reading.now,
                cluster=cluster,
                kind=kwargs["kind"],
                name=kwargs["name"],
                namespace=reading.form.cleaned_data["namespace"],
                team_ids=reading.team_ids,
            )
        if found is None:
            raise Http404
        return found

    def context(self, reading: Reading) -> dict[str, Any]:
        return {"reading": reading, "slugs": team_slugs(reading)}
