"""The audit trail, the latest entry first; for platform admins only, to others there is no such address."""

from __future__ import annotations

from django.http import Http404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import User
from apps.api.base import ListView, Reading
from apps.api.fields import Instant, Text
from apps.api.pagination import Key, Page
from apps.api.schema import documented
from apps.changes.audit import last_verified, tip
from apps.changes.audit_filters import AuditForm
from apps.changes.models import AuditEntry


class AuditEntrySerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`sequence` has no holes; `hash` is SHA-256 over the entry's canonical JSON, `previous_hash` included. `who`: "portal"
    is the portal itself; `address`: a network address, or the command that was run, "" for the portal's worker.
    `before` and `after`: the fields that differ, null where there was or is nothing; secrets are "***"."""

    sequence = serializers.IntegerField(read_only=True)
    at = Instant()
    who = Text(source="actor_name")
    who_id = serializers.IntegerField(source="actor_id", read_only=True, allow_null=True)
    address = Text()
    action = Text()
    kind = Text(source="subject_kind")
    id = Text(source="subject_id")
    about = Text(source="subject_label")
    team = Text(source="team_slug")
    cluster = Text(source="cluster_slug")
    reason = Text()
    before = serializers.DictField(read_only=True, allow_null=True)
    after = serializers.DictField(read_only=True, allow_null=True)
    resource_version = Text()
    outcome = serializers.ChoiceField(choices=["done", "refused"], read_only=True)
    previous_hash = Text()
    hash = Text()


class TipSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """The last entry of the whole trail; `sequence` 0: it is empty."""

    sequence = serializers.IntegerField(read_only=True)
    hash = Text()


class VerifiedSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """How far the trail was read and found to fit, and when."""

    at = Instant()
    sequence = serializers.IntegerField(read_only=True)
    hash = Text()


@documented(operation="audit", summary="The audit trail")
class AuditView(ListView):
    route = "audit"
    item = AuditEntrySerializer
    filter_class = AuditForm
    extra_fields = {
        "tip": TipSerializer(read_only=True),
        "verified": VerifiedSerializer(read_only=True, allow_null=True),
    }

    def get(self, request: Request) -> Response:
        if not (isinstance(request.user, User) and request.user.is_platform_admin):
            raise Http404
        answer: Response = super().get(request)
        return answer

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[AuditEntry]:
        found = reading.form.keep(AuditEntry.objects.order_by("-sequence"))
        if after is not None:
            found = found.filter(sequence__lt=after[0])
        taken = list(found[: size + 1])
        return Page(taken[:size], (taken[size - 1].sequence,) if len(taken) > size else None)

    def totals(self, reading: Reading) -> dict[str, object]:
        sequence, digest = tip()
        last = last_verified()
        verified = None
        if last is not None and last.after is not None:
            verified = {"at": last.at, "sequence": last.after["entries"], "hash": last.after["hash"]}
        return {
            "tip": {"sequence": sequence, "hash": digest},
            "verified": None if verified is None else VerifiedSerializer(verified).data,
        }
