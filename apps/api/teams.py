"""Teams that the reader may see, and what they own now."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.models import Team
from apps.accounts.selectors import role_in, visible_teams
from apps.api.base import DetailView, ListView, Reading
from apps.api.fields import DecimalText, Instant, Text
from apps.api.pagination import Key, Page, page_of_ids
from apps.api.schema import documented
from apps.fleet.models import TeamBinding
from apps.fleet.selectors import bindings_of_team
from apps.usage.devices import team_utilisation

BINDING_KINDS = TeamBinding.Kind.values


class BindingSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A namespace or queue that the team owns during [valid_from, valid_to)."""

    cluster = Text(source="cluster.slug")
    kind = serializers.ChoiceField(choices=BINDING_KINDS, read_only=True)
    namespace = Text()
    name = Text()
    valid_from = Instant()
    valid_to = Instant(allow_null=True)


class TeamSerializer(serializers.Serializer):  # type: ignore[type-arg]
    slug = Text()
    name = Text()
    cost_centre = Text()


class TeamDetailSerializer(TeamSerializer):
    """`your_role`: "lead", "member" or "" for a reader who sees the team without belonging to it."""

    your_role = serializers.SerializerMethodField()
    utilisation_ratio = serializers.SerializerMethodField(
        help_text="Mean over the devices that the team's pods are on; null: no device said."
    )
    bindings = serializers.SerializerMethodField()

    def get_your_role(self, team: Team) -> str:
        return role_in(self.context["reading"].user, team)

    @extend_schema_field({"type": ["string", "null"], "format": "decimal"})
    def get_utilisation_ratio(self, team: Team) -> str | None:
        reading: Reading = self.context["reading"]
        busy = team_utilisation(now=reading.now, clusters=reading.clusters, team_ids=[team.pk]).get(team.pk)
        if busy is None or busy.ratio is None:
            return None
        return DecimalText().to_representation(busy.ratio.quantize(Decimal("0.0001")))

    @extend_schema_field(BindingSerializer(many=True))
    def get_bindings(self, team: Team) -> list[dict[str, Any]]:
        rows = bindings_of_team(team.pk, self.context["reading"].now)
        found: list[dict[str, Any]] = BindingSerializer(rows, many=True).data  # type: ignore[assignment]
        return found


def _visible(reading: Reading) -> QuerySet[Team]:
    return visible_teams(reading.user)


@documented(operation="teams", summary="Teams that the reader may see")
class TeamsView(ListView):
    route = "teams"
    item = TeamSerializer

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Team]:
        return page_of_ids(_visible(reading), after=after, size=size)


@documented(operation="team", summary="One team and what it owns now")
class TeamView(DetailView):
    route = "teams"
    item = TeamDetailSerializer

    def find(self, reading: Reading, **kwargs: str) -> Team:
        team = _visible(reading).filter(slug=kwargs["slug"]).first()
        if team is None:
            raise Http404
        return team
