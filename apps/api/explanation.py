"""Why one piece of work is not running: what its page says, as data."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.admissions.explanation import Explanation
from apps.admissions.life_relation import PHASES
from apps.api.base import DetailView, Reading
from apps.api.fields import Instant, Text
from apps.api.schema import documented
from apps.api.workloads import EstimateSerializer, LackSerializer
from apps.observations.models import Source
from apps.quotas.gates import CODES
from apps.usage.explained import explained


class StretchSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Time in one phase for one reason; layer, cause and rule are "" where the phase keeps nothing from running."""

    phase = serializers.ChoiceField(choices=PHASES, read_only=True)
    started_at = Instant()
    ended_at = Instant(allow_null=True, help_text="null: it lasts.")
    until_at = Instant(help_text="The end, or when it was last seen to last.")
    seconds = serializers.IntegerField(read_only=True)
    attempt = serializers.IntegerField(
        read_only=True, help_text="Number of the placement; 0 before the first."
    )
    layer = Text()
    cause = Text()
    rule = Text()
    reason = Text()
    message = Text()
    evidence = Text(help_text='Where reason and message were read: condition, check, event, pod, or "".')


class WaitSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A stretch before quota was reserved; `seconds` without pauses and without what was held."""

    which = serializers.ChoiceField(choices=["first", "again"], read_only=True)
    began_at = Instant()
    ended_at = Instant(allow_null=True)
    seconds = serializers.IntegerField(read_only=True)


class AttemptSerializer(serializers.Serializer):  # type: ignore[type-arg]
    number = serializers.IntegerField(read_only=True)
    began_at = Instant()
    ended_at = Instant(allow_null=True)
    ran_seconds = serializers.IntegerField(read_only=True)


class PreemptionSerializer(serializers.Serializer):  # type: ignore[type-arg]
    why = Text()
    preemptor_queue = Text()
    preemptee_queue = Text()


class EvictionSerializer(serializers.Serializer):  # type: ignore[type-arg]
    at = Instant()
    reason = Text()
    message = Text()
    preemption = PreemptionSerializer(allow_null=True, read_only=True)


class SiblingSerializer(serializers.Serializer):  # type: ignore[type-arg]
    uid = Text()
    namespace = Text()
    name = Text()
    wait_seconds = serializers.IntegerField(read_only=True)


class ExplanationSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`sentence` and `action`: why it is not running and what can be done, in the language that was asked for."""

    uid = Text(source="subject.uid")
    cluster = Text(source="subject.cluster.slug")
    kind = Text(source="subject.kind", help_text="Workload, PodGroup, or Pod: a GPU pod that no queue knows.")
    namespace = Text(source="subject.namespace")
    name = Text(source="subject.name")
    team = serializers.SerializerMethodField(help_text="null: no team owns it")
    queue = Text(source="subject.queue")
    phase = serializers.SerializerMethodField(help_text="The present one; null: the object is gone.")
    layer = serializers.SerializerMethodField()
    cause = serializers.SerializerMethodField(help_text='"" where nothing keeps it from running.')
    rule = serializers.SerializerMethodField()
    sentence = Text()
    action = Text()
    outcome = Text(source="life.outcome")
    position = serializers.SerializerMethodField(
        help_text="In its queue, 1 is next; null: does not wait there."
    )
    lacking = serializers.SerializerMethodField(
        help_text="By resource; null: nothing is known, or it does not wait."
    )
    blocked_by = serializers.SerializerMethodField(
        help_text="What keeps it waiting even where quota is free; null: nothing that is known."
    )
    start_estimate = EstimateSerializer(
        source="estimate", allow_null=True, read_only=True, help_text="null: it does not wait for quota."
    )
    stretches = StretchSerializer(source="life.stretches", many=True, read_only=True)
    waits = WaitSerializer(source="life.waits", many=True, read_only=True)
    attempts = AttemptSerializer(source="life.attempts", many=True, read_only=True)
    evictions = EvictionSerializer(source="life.evictions", many=True, read_only=True)
    unseen_evictions = serializers.IntegerField(source="life.unseen_evictions", read_only=True)
    unseen_run_seconds = serializers.IntegerField(
        read_only=True,
        allow_null=True,
        help_text="How long the attempts ran that unseen evictions ended, as the cluster counts; null: not known.",
    )
    same_cause = SiblingSerializer(
        source="siblings.shown", many=True, read_only=True, help_text="At most ten of those that may be seen."
    )
    same_cause_count = serializers.IntegerField(source="siblings.count", read_only=True)
    same_cause_of_other_teams = serializers.IntegerField(source="siblings.hidden", read_only=True)

    def get_team(self, found: Explanation) -> str | None:
        return found.subject.team.slug if found.subject.team else None

    def get_phase(self, found: Explanation) -> str | None:
        return found.stretch.phase if found.stretch else None

    def get_layer(self, found: Explanation) -> str:
        return found.stretch.layer if found.stretch else ""

    def get_cause(self, found: Explanation) -> str:
        return found.stretch.cause if found.stretch else ""

    def get_rule(self, found: Explanation) -> str:
        return found.stretch.rule if found.stretch else ""

    def get_position(self, found: Explanation) -> int | None:
        return found.standing.position.position if found.standing.position else None

    @extend_schema_field(LackSerializer(many=True, allow_null=True))
    def get_lacking(self, found: Explanation) -> Any:
        lacking = found.standing.lacking
        return None if lacking is None else LackSerializer(lacking, many=True).data

    @extend_schema_field({"type": ["string", "null"], "enum": [*CODES, None]})
    def get_blocked_by(self, found: Explanation) -> str | None:
        return found.standing.blocked or None


@documented(operation="explanation", summary="Why one piece of work is not running")
class ExplanationView(DetailView):
    """Also of a GPU pod that no queue knows, by the pod's uid."""

    route = "workloads"
    item = ExplanationSerializer
    needs = (Source.PODS.value, Source.EVENTS.value, Source.KUEUE.value, Source.VOLCANO.value)

    def find(self, reading: Reading, **kwargs: str) -> Explanation:
        found = explained(uid=kwargs["uid"], now=reading.now, team_ids=reading.team_ids)
        if found is None:
            raise Http404
        return found
