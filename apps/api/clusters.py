"""Clusters: what the portal collects from. Every role sees them; credentials and addresses are never shown."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.base import DetailView, ListView, Reading, SourceStateSerializer, source_states
from apps.api.fields import Text
from apps.api.pagination import Key, Page, page_of_ids
from apps.api.schema import documented
from apps.fleet.models import Cluster
from apps.fleet.selectors import enabled_clusters
from apps.observations.models import Source


class ClusterSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`sources`: what is collected from it and how fresh that is."""

    slug = Text()
    name = Text()
    is_demo = serializers.BooleanField(read_only=True)
    sources = serializers.SerializerMethodField()

    @extend_schema_field(SourceStateSerializer(many=True))
    def get_sources(self, cluster: Cluster) -> list[dict[str, Any]]:
        statuses = self.context["reading"].freshness.statuses
        return source_states([status for status in statuses if status.cluster.pk == cluster.pk])


@documented(operation="clusters", summary="Clusters that are collected")
class ClustersView(ListView):
    route = "clusters"
    item = ClusterSerializer
    needs = tuple(Source.values)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Cluster]:
        return page_of_ids(enabled_clusters(), after=after, size=size)


@documented(operation="cluster", summary="One cluster")
class ClusterView(DetailView):
    route = "clusters"
    item = ClusterSerializer
    needs = tuple(Source.values)

    def find(self, reading: Reading, **kwargs: str) -> Cluster:
        found = next((c for c in reading.clusters if c.slug == kwargs["slug"]), None)
        if found is None:
            raise Http404
        return found
