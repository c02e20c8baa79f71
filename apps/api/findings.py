"""What needs attention now, worst first by `severity`; a lead sees what concerns the own teams."""

from __future__ import annotations

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import Instant, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.findings.selectors import Finding, findings
from apps.fleet.filters import ClusterForm
from apps.observations.models import Source

_RANK = {"bad": 0, "warn": 1, "note": 2}


class TargetSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What the finding is about: `kind` says how to read `args`."""

    kind = Text(source="target")
    args = serializers.DictField(child=Text(), read_only=True)


class FindingSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`key` stays the same for the same finding; `text` is a sentence in the language of the request."""

    key = Text()
    severity = serializers.ChoiceField(choices=list(_RANK), read_only=True)
    text = Text()
    count = serializers.IntegerField(read_only=True)
    since = Instant(allow_null=True)
    cluster = serializers.SerializerMethodField(help_text="null: about no single cluster")
    target = TargetSerializer(source="*", read_only=True)

    def get_cluster(self, finding: Finding) -> str | None:
        slugs = {cluster.pk: cluster.slug for cluster in self.context["reading"].clusters}
        return slugs.get(finding.cluster_id or 0)


@documented(operation="findings", summary="What needs attention now")
class FindingsView(ListView):
    route = "findings"
    item = FindingSerializer
    filter_class = ClusterForm
    needs = tuple(Source.values)
    key_shape = (int, str)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Finding]:
        found = findings(now=reading.now, clusters=reading.clusters, team_ids=reading.team_ids)
        return page_of_rows(found, key=lambda f: (_RANK[f.severity], f.key), after=after, size=size)
