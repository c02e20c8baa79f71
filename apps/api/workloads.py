"""Workloads and PodGroups as they stand now, of the teams that the reader may see."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework import serializers

from apps.admissions.workload_filters import WorkloadForm
from apps.admissions.workloads import Owners, find_workload, workloads
from apps.api.base import DetailView, ListView, Reading, ReadView
from apps.api.fields import Amounts, Instant, Text
from apps.api.pagination import Key, Page, page_of_ids
from apps.api.schema import documented
from apps.observations.models import Source, Workload

KINDS = Workload.Kind.values
STATES = Workload.State.values


class HeldSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Quota that is reserved for the workload in one flavor."""

    flavor = Text(allow_null=True)
    resource = Text()
    quantity = Text()


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


class _Workloads(ReadView):
    """What list and detail share."""

    route = "workloads"
    item = WorkloadSerializer
    needs = (Source.KUEUE.value, Source.VOLCANO.value)

    def context(self, reading: Reading) -> dict[str, Any]:
        return {"reading": reading, "owners": self.owners(reading)}

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
        return page_of_ids(found, after=after, size=size)


@documented(operation="workload", summary="One workload by its uid")
class WorkloadView(_Workloads, DetailView):
    def find(self, reading: Reading, **kwargs: str) -> Workload:
        found = find_workload(uid=kwargs["uid"], now=reading.now, team_ids=reading.team_ids)
        if found is None:
            raise Http404
        workload, self._owners = found
        return workload
