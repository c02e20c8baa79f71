"""Texts that no rule knows, by what they cost; for platform admins only, to others there is no such address."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import User
from apps.admissions.rulebook import rule_book
from apps.admissions.unknown import UnknownText, unknown_texts
from apps.admissions.unknown_filters import UnknownForm
from apps.api.base import WORK, ListView, Reading
from apps.api.fields import Instant, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented


class UnknownTextSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`group`: the text without numbers, names and quotes; `sample`: one text as it came; `decides`: the cause of the
    work is unknown by it, else only a part of its message is; `seconds`: how long it kept work waiting in the window,
    null when only events say it; `origins`: condition, event, pod."""

    group = Text()
    decides = serializers.BooleanField(read_only=True)
    sample = Text()
    reason = Text()
    origins = serializers.ListField(child=Text(), read_only=True)
    seconds = serializers.DecimalField(max_digits=20, decimal_places=3, read_only=True, allow_null=True)
    works = serializers.IntegerField(read_only=True)
    texts = serializers.IntegerField(read_only=True)
    clusters = serializers.ListField(child=Text(), read_only=True)
    uids = serializers.ListField(child=Text(), read_only=True)
    last_at = Instant()


def _key(row: UnknownText) -> Key:
    """As listed: what decides first, then the longest blocking. Whole seconds: the group makes it unique."""
    return (int(not row.decides), -int((row.seconds or 0) * 1000), -row.works, row.group)


@documented(operation="admission-failures-unknown", summary="Texts that no rule knows")
class UnknownTextsView(ListView):
    route = "admission-failures-unknown"
    item = UnknownTextSerializer
    filter_class = UnknownForm
    needs = WORK
    key_shape = (int, int, int, str)
    extra_fields = {"rules_version": serializers.IntegerField(read_only=True)}

    def get(self, request: Request) -> Response:
        if not (isinstance(request.user, User) and request.user.is_platform_admin):
            raise Http404
        answer: Response = super().get(request)
        return answer

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[UnknownText]:
        found = unknown_texts(
            clusters=reading.clusters,
            window=reading.form.time_window,
            now=reading.now,
            origin=reading.form.cleaned_data["origin"],
        )
        return page_of_rows(sorted(found, key=_key), key=_key, after=after, size=size)

    def totals(self, reading: Reading) -> dict[str, Any]:
        return {"rules_version": rule_book().version}
