"""What the routes of change requests take. Input: a request's body and headers; output: plain values, or `BadRequest` with
every fault at its field.

Invariants: unknown fields are faults, as unknown parameters are; what the edits hold is for `apps.changes.edits` to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.request import Request

from apps.accounts.models import Team, User
from apps.accounts.selectors import visible_teams
from apps.api.problems import BadRequest, Fault
from apps.changes.errors import Fault as WantedFault
from apps.changes.models import ChangeRequest
from apps.changes.permissions import visible_requests
from apps.changes.refusal_words import request_fault_text
from apps.changes.requests import Wanted
from apps.changes.services import storable
from apps.core.windows import WindowError, parse_instant
from apps.fleet.models import Cluster
from apps.fleet.selectors import enabled_clusters

CREATED = ("cluster", "team", "edits", "reason", "starts_at", "ends_at", "replaces")
EDITED = ("edits", "reason", "starts_at", "ends_at", "replaces", "version")
DECIDED = ("version", "reason")
MOST_VERSION = 2**31 - 1
_ETAG = re.compile(r'(?:W/)?"(\d{1,10})"')


class ChangeEditSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`version` may be said by If-Match instead. PUT takes what is left out as nothing, PATCH as it was."""

    edits = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text="See docs/api.md for the fields of each kind.",
    )
    reason = serializers.CharField(required=False)
    starts_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="null: as soon as it is approved."
    )
    ends_at = serializers.DateTimeField(required=False, allow_null=True, help_text="null: for good.")
    replaces = serializers.IntegerField(
        required=False,
        allow_null=True,
        help_text="The open request whose place this one takes when it is submitted.",
    )
    version = serializers.IntegerField(required=False)


class ChangeCreateSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`team` null: for the platform itself."""

    cluster = serializers.SlugField()
    team = serializers.SlugField(allow_null=True)
    edits = serializers.ListField(
        child=serializers.DictField(), help_text="See docs/api.md for the fields of each kind."
    )
    reason = serializers.CharField()
    starts_at = serializers.DateTimeField(required=False, allow_null=True)
    ends_at = serializers.DateTimeField(required=False, allow_null=True)
    replaces = serializers.IntegerField(required=False, allow_null=True)


class ChangeDeedBodySerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`version`: needed to submit, approve and reject; may be said by If-Match instead. `reason`: needed to reject, to
    undo and to cancel an end."""

    version = serializers.IntegerField(required=False)
    reason = serializers.CharField(required=False, allow_blank=True)


def body_of(request: Request, known: Collection[str]) -> dict[str, Any]:
    """The body's object. Raises BadRequest and ParseError."""
    try:
        data = request.data
        readable = storable(data)
    except RecursionError:
        raise ParseError from None
    if not isinstance(data, dict):
        raise BadRequest([Fault("", "shape", _("The body must be an object."))])
    if not readable:
        raise BadRequest([Fault("", "shape", _("The body holds characters that cannot be stored."))])
    if unknown := [name for name in data if name not in known]:
        text = _("There is no field of this name here.")
        raise BadRequest([Fault(name, "unknown_field", text) for name in unknown])
    return data


def wanted_of(data: Mapping[str, Any], reader: User, present: ChangeRequest | None = None) -> Wanted:
    """What is asked for; what `data` leaves out stays as it is in `present`. Raises BadRequest."""
    reading = _Reading(data, reader)
    if present is None:
        cluster, team = reading.cluster(), reading.team()
        reading.needed("edits", "reason")
    else:
        cluster, team = present.cluster, present.team
    kept = present or Wanted(cluster or Cluster(), team, [], "")
    wanted = Wanted(
        cluster=kept.cluster,
        team=team,
        edits=reading.edits(kept.edits),
        reason=reading.text("reason", kept.reason),
        starts_at=reading.time("starts_at", kept.starts_at),
        ends_at=reading.time("ends_at", kept.ends_at),
        replaces=reading.replaced(kept.replaces),
    )
    reading.raise_faults()
    return wanted


def version_of(request: Request, data: Mapping[str, Any]) -> int | None:
    """The version that the caller saw: `version`, or the header If-Match; None where neither is given."""
    given = data.get("version")
    if given is not None and not _is_whole(given):
        raise BadRequest([Fault("version", "shape", _text_of("version", "shape", "integer"))])
    header = request.headers.get("If-Match")
    if header is None:
        return given
    found = _ETAG.fullmatch(header.strip())
    if found is None:
        raise BadRequest(
            [Fault("If-Match", "shape", _("This must be the ETag of the request as you saw it."))]
        )
    version = min(int(found[1]), MOST_VERSION)
    if given not in (None, version):
        raise BadRequest([Fault("version", "repeated", _("This says another version than If-Match."))])
    return version


def reason_of(data: Mapping[str, Any]) -> str:
    reason = data.get("reason")
    if reason is None:
        return ""
    if not isinstance(reason, str):
        raise BadRequest([Fault("reason", "shape", _text_of("reason", "shape", "text"))])
    return reason


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_VERSION


def _text_of(name: str, code: str, part: str = "") -> str:
    return request_fault_text(WantedFault(name, code, part))


@dataclass
class _Reading:
    """Reads field by field and collects what is wrong."""

    data: Mapping[str, Any]
    reader: User
    faults: list[Fault] = field(default_factory=list)

    def fault(self, name: str, code: str, part: str = "", text: str = "") -> None:
        self.faults.append(Fault(name, code, text or _text_of(name, code, part)))

    def raise_faults(self) -> None:
        if self.faults:
            raise BadRequest(self.faults)

    def needed(self, *names: str) -> None:
        for name in names:
            if name not in self.data:
                self.fault(name, "required")

    def cluster(self) -> Cluster | None:
        slug = self.data.get("cluster")
        if "cluster" not in self.data:
            self.fault("cluster", "required")
            return None
        found = enabled_clusters().filter(slug=slug).first() if isinstance(slug, str) else None
        if found is None:
            self.fault("cluster", "unknown")
        return found

    def team(self) -> Team | None:
        """None: the platform itself, which has to be said."""
        slug = self.data.get("team")
        if slug is None:
            if "team" not in self.data:
                self.fault("team", "required")
            return None
        found = visible_teams(self.reader).filter(slug=slug).first() if isinstance(slug, str) else None
        if found is None:
            self.fault("team", "unknown")
        return found

    def text(self, name: str, kept: str) -> str:
        return str(self._given(name, kept, lambda value: isinstance(value, str), "text") or "")

    def edits(self, kept: Any) -> Any:
        def are_objects(value: Any) -> bool:
            return isinstance(value, list) and all(isinstance(item, dict) for item in value)

        return self._given("edits", kept, are_objects, "list of objects") or []

    def _given(self, name: str, kept: Any, fits: Callable[[Any], bool], shape: str) -> Any:
        if name not in self.data:
            return kept
        if not fits(self.data[name]):
            self.fault(name, "shape", shape)
            return None
        return self.data[name]

    def time(self, name: str, kept: datetime | None) -> datetime | None:
        if name not in self.data or self.data[name] is None:
            return kept if name not in self.data else None
        value = self.data[name]
        if not isinstance(value, str):
            self.fault(name, "shape", "text")
            return None
        try:
            return parse_instant(value)
        except WindowError as error:
            self.fault(name, "time", text=str(error))
            return None

    def replaced(self, kept: ChangeRequest | None) -> ChangeRequest | None:
        if "replaces" not in self.data or self.data["replaces"] is None:
            return kept if "replaces" not in self.data else None
        pk = self.data["replaces"]
        found = visible_requests(self.reader).filter(pk=pk).first() if _is_whole(pk) else None
        if found is None:
            self.fault("replaces", "unknown")
        return found
