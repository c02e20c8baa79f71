"""Filters of what people maintain, shared by pages and REST. Input: query parameters; output: cleaned values.

A team that the reader may not see is the same error (code "not_found") as one that does not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Team
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND, enabled_clusters


class ClusterForm(forms.Form):
    """Narrow to one cluster by its slug."""

    cluster = forms.CharField(label=_("Cluster"), required=False, max_length=60)

    def __init__(
        self, data: Mapping[str, Any], *, now: datetime, team_ids: Collection[int] | None = None
    ) -> None:
        super().__init__(data)
        self.now = now
        self.team_ids = team_ids

    def clusters(self) -> QuerySet[Cluster]:
        """What may be named: the collected ones."""
        return enabled_clusters()

    def clean_cluster(self) -> str:
        slug: str = self.cleaned_data["cluster"]
        if slug and not self.clusters().filter(slug=slug).exists():
            raise ValidationError(_("There is no cluster of this name."), code="not_found")
        return slug


def readable_team(slug: str, team_ids: Collection[int] | None, *, takes_unbound: bool = True) -> str:
    """The slug of a team that a reader of `team_ids` may see, "" for any. Raises ValidationError("not_found")."""
    if not slug or (slug == UNBOUND and takes_unbound and team_ids is None):
        return slug
    teams = Team.objects.filter(slug=slug)
    if team_ids is not None:
        teams = teams.filter(pk__in=list(team_ids))
    if not teams.exists():
        raise ValidationError(_("There is no team of this name."), code="not_found")
    return slug


class TeamScopeForm(ClusterForm):
    """Narrow to one cluster and one team. Where `takes_unbound`, "-" is what no team owns, for readers who see all
    teams."""

    takes_unbound = True
    team = forms.CharField(label=_("Team"), required=False, max_length=80)

    def clean_team(self) -> str:
        return readable_team(self.cleaned_data["team"], self.team_ids, takes_unbound=self.takes_unbound)


class OwnerForm(TeamScopeForm):
    """For things that always belong to somebody or are fleet-wide: no "-"."""

    takes_unbound = False

    def narrowed_team_ids(self) -> list[int] | None:
        """The named team's id; without a name what the reader may see. Only after `is_valid()`."""
        slug = self.cleaned_data["team"]
        if not slug:
            return None if self.team_ids is None else list(self.team_ids)
        return list(Team.objects.filter(slug=slug).values_list("pk", flat=True))
