"""Room by topology: the domains of racks, blocks and NVLink, and how many jobs of k cards fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.capacity import CAPACITY_SOURCES, NoteSerializer
from apps.api.fields import DecimalText, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.capacity.notes import readable
from apps.capacity.topology_filters import TopologyForm
from apps.capacity.topology_report import topology_report
from apps.capacity.topology_rows import DomainRow, PlaceRow


class FitsField(serializers.DictField):
    """{cards of a job: jobs that fit now}; null: not known."""

    child = serializers.IntegerField(allow_null=True)


class FitSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One pool under one scope ("node", "nvlink", "rack", "block"). `is_known` false: nothing says which nodes share
    one; null numbers of a known scope: pods were never read. `broken`: free cards on nodes not wholly free."""

    cluster = Text(source="cluster.slug")
    model = Text()
    model_label = Text()
    sharing_mode = Text()
    capacity_type = Text()
    scope = Text()
    kind = Text()
    topology = Text()
    level = Text()
    is_known = serializers.BooleanField(source="known", read_only=True)
    domains = serializers.IntegerField(read_only=True, allow_null=True)
    nodes = serializers.IntegerField(read_only=True)
    allocatable = serializers.IntegerField(read_only=True)
    held = serializers.IntegerField(read_only=True, allow_null=True)
    free = serializers.IntegerField(read_only=True, allow_null=True)
    stranded = serializers.IntegerField(read_only=True, allow_null=True)
    broken = serializers.IntegerField(read_only=True, allow_null=True)
    fragmentation_ratio = DecimalText(allow_null=True)
    largest_free = serializers.IntegerField(read_only=True, allow_null=True)
    fits = FitsField(read_only=True)


class DomainSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Whole cards of one pool in one domain; `domain` "" gathers the nodes in none of the level. `node`: its only
    node. Domains of one level of one topology add up to the pool."""

    cluster = Text(source="cluster.slug")
    model = Text()
    model_label = Text()
    sharing_mode = Text()
    capacity_type = Text()
    kind = Text()
    topology = Text()
    level = Text()
    level_index = serializers.IntegerField(read_only=True)
    domain = Text()
    parent = Text()  # type: ignore[assignment]
    node = Text()
    nodes = serializers.IntegerField(read_only=True)
    allocatable = serializers.IntegerField(read_only=True)
    held = serializers.IntegerField(read_only=True, allow_null=True)
    free = serializers.IntegerField(read_only=True, allow_null=True)
    stranded = serializers.IntegerField(read_only=True, allow_null=True)
    broken = serializers.IntegerField(read_only=True, allow_null=True)
    largest_free_node = serializers.IntegerField(read_only=True, allow_null=True)
    fits = FitsField(read_only=True)


@documented(operation="topology", summary="Domains by topology, and how many jobs of k cards fit")
class TopologyView(ListView):
    route = "topology"
    item = DomainSerializer
    filter_class = TopologyForm
    needs = CAPACITY_SOURCES
    key_shape = (int, str, str, str, str, int, str)
    extra_fields: Mapping[str, Any] = {
        "fits": FitSerializer(many=True, read_only=True),
        "clusters_without_topology": serializers.ListField(
            child=Text(), read_only=True, help_text="Clusters where nothing says which nodes share a rack."
        ),
        "left_out_clusters": serializers.ListField(
            child=Text(), read_only=True, help_text="Clusters whose nodes were never read: in no number here."
        ),
        "notes": NoteSerializer(many=True, read_only=True),
    }

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[DomainRow]:
        self.report = topology_report(now=reading.now, clusters=reading.clusters, pod=reading.form.pod_size)
        return page_of_rows(
            reading.form.narrowed_domains(self.report.domains),
            key=lambda row: (
                row.cluster.pk,
                row.model,
                row.capacity_type,
                row.kind,
                row.topology,
                row.level_index,
                row.domain,
            ),
            after=after,
            size=size,
        )

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return {
            "fits": FitSerializer(reading.form.narrowed_fits(self.report.fits), many=True).data,
            "clusters_without_topology": [cluster.slug for cluster in self.report.without],
            "left_out_clusters": [cluster.slug for cluster in self.report.missing],
            "notes": NoteSerializer(
                readable(self.report.notes, every_team=reading.team_ids is None), many=True
            ).data,
        }


class PlaceSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Where a node with accelerators stands. `rdma`: allocatable RDMA devices by resource; `cards_by_numa` and
    `pcie_roots` only as far as cards are known by name; `says_…`: a label of node feature discovery."""

    cluster = Text(source="cluster.slug")
    node = Text()
    models = serializers.ListField(child=Text(), read_only=True)
    capacity_type = Text()
    domain = Text()
    nvlink_clique = Text(source="clique")
    rdma = serializers.DictField(child=Text(), read_only=True)
    says_rdma = serializers.BooleanField(source="rdma_said", read_only=True)
    cards_by_numa = serializers.DictField(source="numa", child=serializers.IntegerField(), read_only=True)
    says_several_numa = serializers.BooleanField(source="numa_said", read_only=True)
    pcie_roots = serializers.ListField(source="pcie", child=Text(), read_only=True)


@documented(
    operation="topology-nodes", summary="Nodes with accelerators: where they stand, what connects them"
)
class TopologyNodesView(ListView):
    route = "topology-nodes"
    item = PlaceSerializer
    filter_class = TopologyForm
    needs = CAPACITY_SOURCES
    key_shape = (int, str)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[PlaceRow]:
        report = topology_report(now=reading.now, clusters=reading.clusters)
        return page_of_rows(
            reading.form.narrowed_nodes(report.nodes),
            key=lambda row: (row.cluster.pk, row.node),
            after=after,
            size=size,
        )
