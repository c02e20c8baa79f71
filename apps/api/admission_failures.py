"""Work that waits now, and why, longest wait first; only of the teams that the reader may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.admissions.filters import WaitingForm
from apps.admissions.labels import cause_label
from apps.admissions.pending import Pending
from apps.admissions.selectors import WaitingList, WaitingRow, waiting
from apps.api.base import WORK, ListView, Reading
from apps.api.fields import Amounts, Instant, Text
from apps.api.pagination import Key, Page, instant_key, page_of_rows
from apps.api.schema import documented


class WaitingSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`reason` is the cluster's own token ("" when it gave none) and `message` its own text, never translated;
    `cause` and `layer` are the portal's verdict by the rule `rule`, "unknown" when no rule matched."""

    uid = Text()
    cluster = Text(source="cluster_slug")
    kind = Text()
    namespace = Text()
    name = Text()
    team = serializers.SerializerMethodField(help_text="null: no team owns it")
    queue_name = Text(help_text="LocalQueue, or Volcano queue")
    queue = Text(help_text='ClusterQueue or Volcano queue; "" when not known')
    state = Text()
    cause = Text()
    cause_label = serializers.SerializerMethodField()
    layer = Text()
    rule = serializers.SerializerMethodField()
    reason = Text()
    message = Text()
    message_source = Text()
    asked = Amounts()
    priority = serializers.IntegerField(read_only=True, allow_null=True)
    since = Instant()
    queued_at = Instant(allow_null=True)
    wait_seconds = serializers.IntegerField(read_only=True)

    def get_team(self, row: WaitingRow) -> str | None:
        return row.team_slug or None

    def get_cause_label(self, row: WaitingRow) -> str:
        return str(cause_label(row.cause))

    def get_rule(self, row: WaitingRow) -> str:
        return row.verdict.rule


def _key(row: Pending) -> Key:
    """Later arrivals come last, so that reading on never misses one."""
    return (instant_key(row.waits_since), row.cluster_id, row.kind, row.key)


@documented(operation="admission-failures", summary="Work that waits now, and why")
class AdmissionFailuresView(ListView):
    route = "admission-failures"
    item = WaitingSerializer
    filter_class = WaitingForm
    needs = WORK
    key_shape = (str, int, str, int)
    extra_fields: Mapping[str, Any] = {"count": serializers.IntegerField(read_only=True)}

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[WaitingRow]:
        self.found = waiting(now=reading.now, team_ids=reading.team_ids, criteria=reading.form.criteria)
        narrow = page_of_rows(self.found.found, key=_key, after=after, size=size)
        return Page(WaitingList(narrow.rows, now=reading.now)[:], narrow.last)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        """Of all pages together."""
        return {"count": len(self.found)}
