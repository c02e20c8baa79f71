"""What needs attention now, worst first by `severity`; a lead sees what concerns the own teams."""

from __future__ import annotations

from typing import cast

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import Instant, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.findings.filters import FindingForm
from apps.findings.selectors import Finding, findings
from apps.observations.models import Source

_RANK = {"bad": 0, "warn": 1, "note": 2}


class TargetSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What the finding is about: `kind` says how to read `args`."""

    kind = Text(source="target")
    args = serializers.DictField(child=Text(), read_only=True)


class ObjectSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """An object that the finding is about; `namespace` "" for cluster-wide ones."""

    kind = Text()
    namespace = Text()
    name = Text()


class FindingSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`key` stays the same for the same finding; `text`, `why` and `advice` are sentences in the language of the
    request. `since`: when the matter began, as far as the cluster says; `first_seen` and `last_seen`: when the portal
    found it, null while that is not noted yet."""

    key = Text()
    code = Text()
    severity = serializers.ChoiceField(choices=list(_RANK), read_only=True)
    text = Text()
    why = Text()
    advice = Text()
    objects = ObjectSerializer(many=True, read_only=True)
    count = serializers.IntegerField(read_only=True)
    since = Instant(allow_null=True)
    first_seen = Instant(allow_null=True)
    last_seen = Instant(allow_null=True)
    cluster = serializers.SerializerMethodField(help_text="null: about no single cluster")
    target = TargetSerializer(source="*", read_only=True)

    def get_cluster(self, finding: Finding) -> str | None:
        slugs = {cluster.pk: cluster.slug for cluster in self.context["reading"].clusters}
        return slugs.get(finding.cluster_id or 0)


@documented(operation="findings", summary="What needs attention now")
class FindingsView(ListView):
    route = "findings"
    item = FindingSerializer
    filter_class = FindingForm
    needs = tuple(Source.values)
    key_shape = (int, str)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Finding]:
        form = cast(FindingForm, reading.form)
        team_ids = form.narrowed_team_ids()
        found = form.keep(findings(now=reading.now, clusters=reading.clusters, team_ids=team_ids))
        return page_of_rows(found, key=lambda f: (_RANK[f.severity], f.key), after=after, size=size)
