"""Work of which no Workload was made, and why, oldest first; only of namespaces of teams that the reader may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.admissions.filters import WaitingForm
from apps.admissions.labels import cause_label, next_step, verdict_sentence
from apps.admissions.unmade import UnmadeRow, unmade
from apps.api.base import WORK, ListView, Reading
from apps.api.fields import Instant, Text
from apps.api.pagination import Key, Page, instant_key, page_of_rows
from apps.api.schema import documented


class UnmadeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """The owner that was to be queued (`kind`: Job, JobSet …), as its events tell. `reason` is the cluster's own token,
    `message` its own text; `sentence` and `action` say why and what can be done. `since`: the first event that is kept;
    `times`: how often anything was said."""

    uid = Text()
    cluster = Text(source="cluster_slug")
    kind = Text()
    namespace = Text()
    name = Text()
    team = serializers.SerializerMethodField(help_text="null: no team owns it")
    cause = Text()
    cause_label = serializers.SerializerMethodField()
    layer = Text(source="verdict.layer")
    rule = Text(source="verdict.rule")
    sentence = serializers.SerializerMethodField()
    action = serializers.SerializerMethodField()
    reason = Text()
    message = Text()
    since = Instant()
    last_at = Instant()
    times = serializers.IntegerField(read_only=True)

    def get_team(self, row: UnmadeRow) -> str | None:
        return row.team_slug or None

    def get_cause_label(self, row: UnmadeRow) -> str:
        return str(cause_label(row.cause))

    def get_sentence(self, row: UnmadeRow) -> str:
        return str(verdict_sentence(row.verdict))

    def get_action(self, row: UnmadeRow) -> str:
        return str(next_step(row.verdict))


def _key(row: UnmadeRow) -> Key:
    """As listed; the uid makes it unique."""
    return (instant_key(row.since), row.cluster_id, row.namespace, row.name, row.uid)


@documented(operation="admission-failures-unmade", summary="Work of which no Workload was made, and why")
class UnmadeView(ListView):
    route = "admission-failures-unmade"
    item = UnmadeSerializer
    filter_class = WaitingForm
    needs = WORK
    key_shape = (str, int, str, str, str)
    extra_fields: Mapping[str, Any] = {"count": serializers.IntegerField(read_only=True)}

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[UnmadeRow]:
        found = unmade(now=reading.now, team_ids=reading.team_ids, criteria=reading.form.criteria)
        self.count = len(found)
        return page_of_rows(sorted(found, key=_key), key=_key, after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        """Of all pages together."""
        return {"count": self.count}
