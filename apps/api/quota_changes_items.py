"""Change requests as REST tells them. Input: rows and the reader's teams; output: plain data for the serializers.

Invariant: what other teams hold, gain or lose is told in sums (see `apps.changes.masking`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers

from apps.accounts.models import Team, User
from apps.api.fields import DecimalText, Instant, Text
from apps.changes.checks_model import Finding, report_from_json
from apps.changes.masking import OTHERS, masked_report
from apps.changes.models import ChangeRequest, ChangeStep, State
from apps.changes.patching import edited_fields, yaml_diff
from apps.changes.selectors import timeline
from apps.changes.services import offered
from apps.changes.words import field_words, finding_text

STATES, ORIGINS = State.values, ChangeRequest.Origin.values
Json = dict[str, Any]


class ChangedObjectSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`namespace` "" for what belongs to the whole cluster."""

    kind = Text()
    namespace = Text()
    name = Text()


class ChangeRequestItemSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`team` null: the platform itself. `version` grows with everything that happens to the request. `decided_by` is
    who approved or rejected it; `self_approved`: it was whoever asked. `closed_at` null: something is still to happen."""

    id = serializers.IntegerField(read_only=True)
    version = serializers.IntegerField(read_only=True)
    state = serializers.ChoiceField(choices=STATES, read_only=True)
    state_label = Text()
    origin = serializers.ChoiceField(choices=ORIGINS, read_only=True)
    origin_label = Text()
    cluster = Text()
    team = Text(allow_null=True)
    objects = ChangedObjectSerializer(many=True, read_only=True)
    reason = Text()
    starts_at = Instant(allow_null=True)
    ends_at = Instant(allow_null=True)
    reverts = serializers.IntegerField(read_only=True, allow_null=True)
    replaces = serializers.IntegerField(read_only=True, allow_null=True)
    created_by = Text()
    created_at = Instant()
    check_wanted_at = Instant(allow_null=True)
    checked_at = Instant(allow_null=True)
    asked_at = Instant(allow_null=True)
    decided_by = Text(allow_null=True)
    decided_at = Instant(allow_null=True)
    decision_reason = Text()
    self_approved = serializers.BooleanField(read_only=True)
    applied_at = Instant(allow_null=True)
    observed_at = Instant(allow_null=True)
    closed_at = Instant(allow_null=True)
    failure = Text()


class ChangeCalendarItemSerializer(ChangeRequestItemSerializer):
    """`next_at`: when it starts or ends; where that has passed, its end waits for somebody."""

    next_at = Instant()


class ChangeFindingSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A refusal or warning at the field of the edit that brings it about."""

    code = Text()
    field = Text()
    params = serializers.DictField(read_only=True)
    text = Text()


class ChangeDryRunSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What the API server answered to a step with dryRun=All: `verdict` accepted, refused or unknown; `text` verbatim."""

    position = serializers.IntegerField(read_only=True)
    verdict = Text()
    status = serializers.IntegerField(read_only=True)
    text = Text()


class ChangeReportSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`what_if` null: not tried. See docs/api.md."""

    refusals = ChangeFindingSerializer(many=True, read_only=True)
    warnings = ChangeFindingSerializer(many=True, read_only=True)
    what_if = serializers.DictField(read_only=True, allow_null=True)
    dry_run = ChangeDryRunSerializer(many=True, read_only=True)


class ChangeStepSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One write. `body`: the JSON patch, or Volcano's Command. `before`, `after`: the spec as it was checked and as it is
    to be; `diff` the same as YAML, `words` in words. `sent_at` without `done_at`: only the cluster knows. `drift`: what
    somebody else changed of it since."""

    position = serializers.IntegerField(read_only=True)
    kind = Text()
    namespace = Text()
    name = Text()
    method = Text()
    path = Text()
    resource_version = Text()
    written_version = Text()
    body = serializers.JSONField(read_only=True)
    before = serializers.JSONField(read_only=True)
    after = serializers.JSONField(read_only=True)
    diff = Text()
    words = serializers.ListField(child=Text(), read_only=True)
    sent_at = Instant(allow_null=True)
    done_at = Instant(allow_null=True)
    reversed_at = Instant(allow_null=True)
    answer = Text()
    observed_at = Instant(allow_null=True)
    drift_since = Instant(allow_null=True)
    drift = serializers.JSONField(read_only=True, allow_null=True)


class ChangeEffectSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What a changed queue had at a `moment`: before, 15m or 1d. null: the portal could not see it."""

    moment = Text()
    at = Instant()
    queue = Text()
    resource = Text()
    nominal = DecimalText(allow_null=True)
    held = DecimalText(allow_null=True)
    borrowed = DecimalText(allow_null=True)
    admitted_workloads = serializers.IntegerField(read_only=True, allow_null=True)
    waiting_workloads = serializers.IntegerField(read_only=True, allow_null=True)
    waiting_units = DecimalText(allow_null=True)


class ChangeDeedSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One entry of the audit trail. `outcome`: done, or refused."""

    sequence = serializers.IntegerField(read_only=True)
    at = Instant()
    action = Text()
    actor = Text()
    outcome = Text()
    reason = Text()


class ChangeRequestSerializer(ChangeRequestItemSerializer):
    """`possible`: what the reader could do to it now. `edits`: as asked for. `replaced_by`: the request that took its
    place or is to take it; `reverted_by`: those that take it back."""

    edits = serializers.ListField(child=serializers.DictField(), read_only=True)
    possible = serializers.ListField(child=Text(), read_only=True)
    replaced_by = serializers.ListField(child=serializers.IntegerField(), read_only=True)
    reverted_by = serializers.ListField(child=serializers.IntegerField(), read_only=True)
    report = ChangeReportSerializer(read_only=True, allow_null=True)
    steps = ChangeStepSerializer(many=True, read_only=True)
    effects = ChangeEffectSerializer(many=True, read_only=True)
    timeline = ChangeDeedSerializer(many=True, read_only=True)


_PLAIN = (
    "version", "state", "origin", "reason", "starts_at", "ends_at", "created_at", "check_wanted_at", "checked_at",
    "asked_at", "decided_at", "decision_reason", "self_approved", "applied_at", "observed_at", "closed_at", "failure",
)  # fmt: skip

_STEP = (
    "position", "kind", "namespace", "name", "method", "path", "resource_version", "written_version", "body", "before",
    "after", "sent_at", "done_at", "reversed_at", "answer", "observed_at", "drift_since", "drift",
)  # fmt: skip


def told(request: ChangeRequest) -> Json:
    """A row of the list."""
    return {
        **{name: getattr(request, name) for name in _PLAIN},
        "id": request.pk,
        "state_label": request.get_state_display(),
        "origin_label": request.get_origin_display(),
        "cluster": request.cluster.slug,
        "team": request.team.slug if request.team else None,
        "objects": _objects(request),
        "reverts": request.reverts_id,
        "replaces": request.replaces_id,
        "created_by": request.created_by.username,
        "decided_by": request.decided_by.username if request.decided_by else None,
    }


def told_in_calendar(request: ChangeRequest) -> Json:
    return {**told(request), "next_at": request.next_at}  # type: ignore[attr-defined]


def told_whole(
    request: ChangeRequest, reader: User, team_ids: Collection[int] | None, *, now: datetime
) -> Json:
    """One request with all that is known of it. `team_ids`: whom the reader may be told of by name; None: everybody."""
    return {
        **told(request),
        "edits": request.edits,
        "possible": offered(reader, request, now=now),
        "replaced_by": sorted(request.replaced_by.values_list("pk", flat=True)),
        "reverted_by": sorted(request.reverted_by.values_list("pk", flat=True)),
        "report": None if request.report is None else _report(request, team_ids),
        "steps": [_step(step) for step in request.steps.all()],
        "effects": request.effects.order_by("at", "queue", "resource"),
        "timeline": [
            {
                "sequence": entry.sequence,
                "at": entry.at,
                "action": entry.action.removeprefix("change."),
                "actor": entry.actor_name,
                "outcome": entry.outcome,
                "reason": entry.reason,
            }
            for entry in timeline(request)
        ],
    }


def _objects(request: ChangeRequest) -> list[Json]:
    found = {
        tuple(str(edit.get(part) or "") for part in ("kind", "namespace", "name")): None
        for edit in request.edits
    }
    return [{"kind": kind, "namespace": namespace, "name": name} for kind, namespace, name in found]


def _step(step: ChangeStep) -> Json:
    found = {name: getattr(step, name) for name in _STEP}
    changes = edited_fields(step.before, step.after)
    return {**found, "diff": yaml_diff(step.before, step.after), "words": field_words(changes)}


# ---- the report -----------------------------------------------------------------------------------------------------


def _report(request: ChangeRequest, team_ids: Collection[int] | None) -> Json:
    assert request.report is not None  # noqa: S101 -- the caller looked
    names = [found["name"] for found in _objects(request)]
    masked = masked_report(request.report, team_ids, names=names)
    report = report_from_json(masked)
    teams = {pk: (slug, name) for pk, slug, name in Team.objects.values_list("pk", "slug", "name")}
    slugs = {pk: slug for pk, (slug, _name) in teams.items()}

    def team_name(team: int | None) -> str:
        return _("Work of nobody") if team is None else teams.get(team, ("", str(team)))[1]

    def found(one: Finding) -> Json:
        params: Json = dict(one.params)
        if isinstance(params.get("teams"), list):
            params["teams"] = [{**line, "team": _slug(line["team"], slugs)} for line in params["teams"]]
        return {
            "code": one.code,
            "field": one.field,
            "params": params,
            "text": finding_text(one, team_name=team_name),
        }

    return {
        "refusals": [found(one) for one in report.refusals],
        "warnings": [found(one) for one in report.warnings],
        "what_if": None if report.what_if is None else _what_if(report.what_if, slugs),
        "dry_run": report.dry_run,
    }


def _slug(team: Any, slugs: Mapping[int, str]) -> str | None:
    """A team as REST names it: None is nobody's work, "others" what the reader is told in sums."""
    if team in (None, "", OTHERS):
        return team or None
    return slugs.get(int(team))


def _what_if(found: Mapping[str, Any], slugs: Mapping[int, str]) -> Json:
    if "teams" not in found:
        return dict(found)
    return {
        **found,
        **{
            part: [{**line, "team": _slug(line["team"], slugs)} for line in found[part]]
            for part in ("teams", "work")
        },
        "volcano": [
            {**line, "teams": [_slug(team, slugs) for team in line["teams"]]} for line in found["volcano"]
        ],
    }
