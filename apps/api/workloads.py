"""Workloads and PodGroups as they stand now, of the teams that the reader may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.admissions.estimates import SHARE, Estimate
from apps.admissions.queued import SETTLED, Standing, queue_key, standings
from apps.admissions.workload_filters import WorkloadForm
from apps.admissions.workloads import Owners, find_workload, workloads
from apps.api.base import DetailView, ListView, Reading, ReadView
from apps.api.fields import Amounts, DecimalText, Instant, Text
from apps.api.pagination import Key, Page, page_of_ids
from apps.api.schema import documented
from apps.observations.models import Source, Workload
from apps.quotas.gates import CODES
from apps.quotas.team_quota import offers_in
from apps.usage.start_estimates import estimates_of

KINDS = Workload.Kind.values
STATES = Workload.State.values


class HeldSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Quota that is reserved for the workload in one flavor."""

    flavor = Text(allow_null=True)
    resource = Text()
    quantity = Text()


class LackSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What must come free in the queue before the work fits. `beyond_ceiling`: it can never fit, by that much; null: it
    can. `is_offered` false: the queue has no quota of this resource."""

    resource = Text()
    asked = DecimalText()
    missing = DecimalText()
    flavor = Text(help_text='The flavor that lacks least; "" where there is none.')
    beyond_ceiling = DecimalText(source="beyond", allow_null=True)
    is_offered = serializers.BooleanField(source="offered", read_only=True)


class EstimateSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Between `low_seconds` and `high_seconds` from now `share` of comparable work started: same queue and class of size,
    last 28 days, waits that lasted as long. `high_seconds` null with a low one: no end is known. Without a range
    `why_not` says why."""

    low_seconds = serializers.IntegerField(source="low", read_only=True, allow_null=True)
    high_seconds = serializers.IntegerField(source="high", read_only=True, allow_null=True)
    share = serializers.SerializerMethodField()
    sample = serializers.IntegerField(read_only=True, help_text="Comparable waits, those cut off included.")
    ended = serializers.IntegerField(read_only=True, help_text="Those of the sample that ended with quota.")
    basis = serializers.ChoiceField(choices=["size", "size_or_larger", ""], read_only=True)
    why_not = serializers.ChoiceField(
        choices=["", "no_queue", "not_by_waiting", "too_few", "too_few_as_long"], read_only=True
    )

    def get_share(self, _estimate: Estimate) -> str:
        return str(float(SHARE))


class WorkloadSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`reason` is the cluster's own token, `message` its own text. `asked`: over all pods; `held`: reserved."""

    uid = Text()
    cluster = Text(source="cluster.slug")
    kind = serializers.ChoiceField(choices=KINDS, read_only=True)
    namespace = Text()
    name = Text()
    team = serializers.SerializerMethodField(help_text="null: no team owns it")
    queue_name = Text(help_text="LocalQueue, or Volcano queue")
    queue = serializers.SerializerMethodField(help_text="ClusterQueue or Volcano queue; null when not known")
    state = serializers.ChoiceField(choices=STATES, read_only=True)
    reason = Text()
    message = Text()
    priority = serializers.IntegerField(read_only=True, allow_null=True)
    asked = Amounts(source="requests")
    position = serializers.SerializerMethodField(
        help_text="In its queue, 1 is next; null: does not wait there."
    )
    local_position = serializers.SerializerMethodField(help_text="In its LocalQueue or Volcano queue.")
    position_source = serializers.SerializerMethodField(
        help_text='"kueue": said by its visibility API; "computed": by priority and creation; null: no position.'
    )
    lacking = serializers.SerializerMethodField(
        help_text="By resource; [] fits now or has its quota, null: nothing is known of its queue."
    )
    blocked_by = serializers.SerializerMethodField(
        help_text="What keeps it waiting even where quota is free; null: nothing that is known."
    )
    start_estimate = serializers.SerializerMethodField(help_text="null: it does not wait for quota.")
    held = HeldSerializer(source="usage", many=True, read_only=True)
    evictions = serializers.IntegerField(read_only=True)
    created_at = Instant(allow_null=True)
    queued_at = Instant(allow_null=True)
    reserved_at = Instant(allow_null=True)
    admitted_at = Instant(allow_null=True)
    finished_at = Instant(allow_null=True)
    observed_at = Instant()
    gone_at = Instant(allow_null=True, help_text="When the portal saw that the cluster had deleted it.")

    def get_team(self, workload: Workload) -> str | None:
        team = self.context["owners"].team_of(workload)
        return team.slug if team else None

    def get_queue(self, workload: Workload) -> str | None:
        return self.context["owners"].queue_of(workload) or None

    def _standing(self, workload: Workload) -> Standing:
        found: Standing = self.context["standings"].get(workload.pk, SETTLED)
        return found

    def get_position(self, workload: Workload) -> int | None:
        position = self._standing(workload).position
        return position.position if position else None

    def get_local_position(self, workload: Workload) -> int | None:
        position = self._standing(workload).position
        return position.local_position if position else None

    @extend_schema_field({"type": ["string", "null"], "enum": ["kueue", "computed", None]})
    def get_position_source(self, workload: Workload) -> str | None:
        position = self._standing(workload).position
        return position.source if position else None

    @extend_schema_field(LackSerializer(many=True, allow_null=True))
    def get_lacking(self, workload: Workload) -> Any:
        lacking = self._standing(workload).lacking
        return None if lacking is None else LackSerializer(lacking, many=True).data

    @extend_schema_field({"type": ["string", "null"], "enum": [*CODES, None]})
    def get_blocked_by(self, workload: Workload) -> str | None:
        return self._standing(workload).blocked or None

    @extend_schema_field(EstimateSerializer(allow_null=True))
    def get_start_estimate(self, workload: Workload) -> Any:
        found = self.context["estimates"].get(workload.pk)
        return None if found is None else EstimateSerializer(found).data


class _Workloads(ReadView):
    """What list and detail share."""

    route = "workloads"
    item = WorkloadSerializer
    needs = (Source.KUEUE.value, Source.VOLCANO.value)

    def context(self, reading: Reading) -> dict[str, Any]:
        return {
            "reading": reading,
            "owners": self.owners(reading),
            "standings": self.standings,
            "estimates": self.estimates,
        }

    def stand(self, reading: Reading, shown: Sequence[Workload]) -> None:
        """Read where the shown work stands: once for all of it."""
        queues = {work.pk: self.owners(reading).queue_of(work) for work in shown}
        asked = {
            queue_key(work.cluster_id, work.kind, queues[work.pk])
            for work in shown
            if work.state == Workload.State.PENDING and work.gone_at is None
        }
        clusters = {work.cluster_id: work.cluster for work in shown}
        offers = offers_in(now=reading.now, clusters=clusters.values(), queues=asked)
        self.standings = standings(shown, queues=queues, offers=offers, now=reading.now)
        self.estimates = estimates_of(shown, queues=queues, standings=self.standings, now=reading.now)

    def owners(self, reading: Reading) -> Owners:
        if not hasattr(self, "_owners"):
            self._owners = Owners(now=reading.now, clusters=reading.clusters)
        return self._owners


@documented(operation="workloads", summary="Workloads and PodGroups as they stand")
class WorkloadsView(_Workloads, ListView):
    filter_class = WorkloadForm

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Workload]:
        found = workloads(
            team_ids=reading.team_ids,
            criteria=reading.form.criteria,
            clusters=reading.clusters,
            owners=self.owners(reading),
        )
        page = page_of_ids(found, after=after, size=size)
        self.stand(reading, page.rows)
        return page


@documented(operation="workload", summary="One workload by its uid")
class WorkloadView(_Workloads, DetailView):
    def find(self, reading: Reading, **kwargs: str) -> Workload:
        found = find_workload(uid=kwargs["uid"], now=reading.now, team_ids=reading.team_ids)
        if found is None:
            raise Http404
        workload, self._owners = found
        self.stand(reading, [workload])
        return workload
