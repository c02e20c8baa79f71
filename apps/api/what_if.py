"""What would change if quota or work were different: nothing is written, in the portal or in any cluster.

`changes` are laid on the cluster as it was last read, in their order; the admission engine settles the cohort trees
that they touch with and without them, and the answer is the difference. Faults name the field
(`changes.0.set.quotas.1.nominal`). Whoever reads some teams only may name their own queues and work; other names are
unknown (404), and what happens to others is said in sums per tree.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.base import DetailView, Reading
from apps.api.fields import DecimalText, Text
from apps.api.problems import BadRequest, Fault, UnknownNames
from apps.api.quotas import team_slugs
from apps.api.schema import documented
from apps.fleet.registry import is_device
from apps.observations.models import Source
from apps.quotas.engine.model import Pending, Work
from apps.quotas.what_if import Answer, TooMuch, what_if
from apps.quotas.what_if_change import ChangeError, parse_changes
from apps.quotas.what_if_diff import Effect, Holding, Numbers, QuotaLine, TeamLine, Waiting
from apps.quotas.what_if_words import (
    fault_text,
    gap_text,
    note_text,
    reason_text,
    refused_text,
    summary,
    too_much_text,
    what_text,
    why_text,
)


@extend_schema_field(
    {
        "type": "array",
        "items": {"type": "object", "additionalProperties": True},
        "minItems": 1,
        "maxItems": 50,
    }
)
class ChangesField(serializers.ListField):
    """Objects of the kinds that docs/api.md lists."""


class WhatIfBodySerializer(serializers.Serializer):  # type: ignore[type-arg]
    """See docs/api.md for the fields of each kind of change."""

    cluster = serializers.SlugField(help_text="Slug of a cluster that is collected.")
    changes = ChangesField(
        help_text="ClusterQueue and Cohort edits, work added, taken away or of another priority."
    )


class HoldingSerializer(serializers.Serializer):  # type: ignore[type-arg]
    flavor = Text()
    resource = Text()
    amount = DecimalText()


class BeforeAfterSerializer(serializers.Serializer):  # type: ignore[type-arg]
    flavor = Text()
    resource = Text()
    before = DecimalText()
    after = DecimalText()


class ConcernedWorkSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`team` null: nobody's, or of a team that the reader does not see."""

    uid = Text()
    namespace = Text()
    name = Text()
    queue = Text()
    priority = serializers.IntegerField(read_only=True)
    team = Text(allow_null=True)
    is_hypothetical = serializers.BooleanField(read_only=True)


class EffectSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`effect`: starts, preempted, drained, misses (would have started), moves (other flavors), removed. `by`: the work
    that takes the quota; null when none does or the reader may not see it."""

    effect = Text()
    effect_label = Text()
    work = ConcernedWorkSerializer(read_only=True)
    by = ConcernedWorkSerializer(read_only=True, allow_null=True)
    why = Text(help_text='Kueue\'s reason of a preemption, else "".')
    why_label = Text()
    before = HoldingSerializer(many=True, read_only=True)
    after = HoldingSerializer(many=True, read_only=True)


class WaitingAfterSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Work that waits after the change for another reason than before; `reason_before` "" when it did not wait."""

    work = ConcernedWorkSerializer(read_only=True)
    reason_before = Text()
    reason_after = Text()
    label_before = Text()
    label_after = Text()
    details = serializers.ListField(child=Text(), read_only=True)


class QuotaNumbersSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`nominal` null: not listed. Of a cohort `nominal` is what its subtree shares, `holds` what it takes of that."""

    nominal = DecimalText(allow_null=True)
    ceiling = DecimalText()
    holds = DecimalText()
    borrowed = DecimalText()
    lent = DecimalText()
    over = DecimalText()


class QuotaChangeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    kind = Text()
    name = Text()
    cohort = Text()
    flavor = Text()
    resource = Text()
    before = QuotaNumbersSerializer(read_only=True)
    after = QuotaNumbersSerializer(read_only=True)


class TeamChangeSerializer(BeforeAfterSerializer):
    """`team` null: work of nobody."""

    team = Text(allow_null=True)


class OthersSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Work that the reader may not see, in one tree."""

    cohort = Text()
    starts = serializers.IntegerField(read_only=True)
    loses = serializers.IntegerField(read_only=True)
    moves = serializers.IntegerField(read_only=True)
    holds = BeforeAfterSerializer(many=True, read_only=True)


class NotModelledSerializer(serializers.Serializer):  # type: ignore[type-arg]
    code = Text()
    detail = Text()


class ChangeNoteSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What Kueue would accept and what is odd about it."""

    field = Text()
    code = Text()
    detail = Text()


class WhatIfSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`is_settled` false: the run was cut before everything came to rest. `starts_anyway`: workloads that would start
    without the change too; null for readers of some teams only."""

    cluster = Text()
    summary = Text()
    notes = ChangeNoteSerializer(many=True, read_only=True)
    effects = EffectSerializer(many=True, read_only=True)
    waiting = WaitingAfterSerializer(many=True, read_only=True)
    quotas = QuotaChangeSerializer(many=True, read_only=True)
    teams = TeamChangeSerializer(many=True, read_only=True)
    others = OthersSerializer(many=True, read_only=True)
    not_modelled = NotModelledSerializer(many=True, read_only=True)
    starts_anyway = serializers.IntegerField(read_only=True, allow_null=True)
    is_settled = serializers.BooleanField(read_only=True)
    cycles = serializers.IntegerField(read_only=True)


@documented(operation="what-if", summary="What a change of quota or work would do", body=WhatIfBodySerializer)
class WhatIfView(DetailView):
    route = "quotas"
    item = WhatIfSerializer
    needs = (Source.KUEUE.value,)
    http_method_names = ["post", "options"]

    def post(self, request: Request) -> Response:
        reading = self.read(request)
        try:
            data = request.data
        except RecursionError:
            raise ParseError from None
        if not isinstance(data, dict):
            raise BadRequest([Fault("", "shape", _("The body must be an object."))])
        faults = [
            Fault(name, "unknown_field", _("There is no field of this name here."))
            for name in data
            if name not in ("cluster", "changes")
        ]
        faults += [
            Fault(name, "required", _("This is needed."))
            for name in ("cluster", "changes")
            if name not in data
        ]
        if faults:
            raise BadRequest(faults)
        cluster = next((found for found in reading.clusters if found.slug == data["cluster"]), None)
        if cluster is None:
            raise UnknownNames([Fault("cluster", "unknown", _("There is nothing of this name."))])
        try:
            answer = what_if(
                now=reading.now,
                cluster=cluster,
                changes=parse_changes(data["changes"]),
                team_ids=reading.team_ids,
            )
        except ChangeError as error:
            kind = UnknownNames if error.unknown else BadRequest
            raise kind([Fault(f.field, f.code, fault_text(f)) for f in error.faults]) from None
        except TooMuch as error:
            raise BadRequest([Fault("cluster", "too_much", too_much_text(error))]) from None
        result = _Told(answer, reading).result()
        return Response({**self.envelope(reading), "result": self.item(result).data})


class _Told:
    """An answer as plain data for the serializers."""

    def __init__(self, answer: Answer, reading: Reading) -> None:
        self.answer = answer
        self.slugs = team_slugs(reading)
        self.all_teams = reading.team_ids is None

    def result(self) -> dict[str, Any]:
        answer, found = self.answer, self.answer.comparison
        return {
            "cluster": answer.cluster.slug,
            "summary": summary(
                answer, accelerator=is_device, team_name=lambda key: self._team(key) or _("Work of nobody")
            ),
            "notes": [{"field": n.field, "code": n.code, "detail": note_text(n)} for n in answer.notes],
            "effects": [self._effect(effect) for effect in found.effects],
            "waiting": [self._waiting(line) for line in found.waiting],
            "quotas": [_quota(line) for line in found.quotas],
            "teams": [self._team_line(line) for line in found.teams],
            "others": [
                {
                    "cohort": line.cohort,
                    "starts": line.starts,
                    "loses": line.loses,
                    "moves": line.moves,
                    "holds": [
                        {"flavor": flavor, "resource": resource, "before": before, "after": after}
                        for flavor, resource, before, after in line.holds
                    ],
                }
                for line in found.others
            ],
            "not_modelled": [{"code": code, "detail": gap_text(code)} for code in answer.gaps],
            "starts_anyway": found.anyway if self.all_teams else None,
            "is_settled": found.whole,
            "cycles": found.cycles,
        }

    def _team(self, team_id: int | None) -> str | None:
        return None if team_id is None else self.slugs.get(team_id)

    def _work(self, work: Work) -> dict[str, Any]:
        return {
            "uid": work.uid,
            "namespace": work.namespace,
            "name": work.name,
            "queue": work.queue,
            "priority": work.priority,
            "team": self._team(self.answer.team_of(work)),
            "is_hypothetical": work.uid in self.answer.added,
        }

    def _effect(self, effect: Effect) -> dict[str, Any]:
        return {
            "effect": effect.what,
            "effect_label": what_text(effect),
            "work": self._work(effect.work),
            "by": None if effect.by is None else self._work(effect.by),
            "why": effect.why,
            "why_label": why_text(effect),
            "before": _held(effect.before),
            "after": _held(effect.after),
        }

    def _waiting(self, line: Waiting) -> dict[str, Any]:
        return {
            "work": self._work(line.work),
            "reason_before": _code(line.before),
            "reason_after": _code(line.after),
            "label_before": refused_text(line.before),
            "label_after": refused_text(line.after),
            "details": [reason_text(reason) for reason in line.after.reasons],
        }

    def _team_line(self, line: TeamLine) -> dict[str, Any]:
        return {
            "team": self._team(line.team_id),
            "flavor": line.flavor,
            "resource": line.resource,
            "before": line.before,
            "after": line.after,
        }


def _code(pending: Pending | None) -> str:
    return "" if pending is None else pending.refused


def _held(held: Holding) -> list[dict[str, Any]]:
    return [
        {"flavor": flavor, "resource": resource, "amount": amount}
        for (flavor, resource), amount in sorted(held.items())
    ]


def _numbers(numbers: Numbers) -> dict[str, Any]:
    return {
        name: getattr(numbers, name) for name in ("nominal", "ceiling", "holds", "borrowed", "lent", "over")
    }


def _quota(line: QuotaLine) -> dict[str, Any]:
    return {
        "kind": line.kind,
        "name": line.name,
        "cohort": line.cohort,
        "flavor": line.flavor,
        "resource": line.resource,
        "before": _numbers(line.before),
        "after": _numbers(line.after),
    }
