"""Where pages lead to the form of a change request. Input: who reads and what the page shows; output: an address, ""
where they may not ask."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from apps.accounts.models import Team, User
from apps.accounts.selectors import led_teams
from apps.changes.editable import Editable
from apps.changes.filters import KINDS
from apps.changes.form import Place
from apps.changes.models import ChangeRequest, State
from apps.changes.permissions import may_ask_for
from apps.changes.requests import Origin
from apps.console.change_form_state import asks_for
from apps.console.links import address
from apps.fleet.models import Cluster
from apps.quotas.situation import Scene
from apps.quotas.what_if_form import Json, dump_changes


def ask_url(
    user: User, cluster: Cluster, kind: str, name: str, *, namespace: str = "", owners: Collection[int]
) -> str:
    """Of one object; `owners`: the teams that it belongs to. Teams ask for no cohort."""
    if kind not in KINDS:
        return ""
    may = user.is_platform_admin or (kind != "Cohort" and led_teams(user).filter(pk__in=owners).exists())
    place = Place(kind, namespace if kind == "LocalQueue" else "", name)
    return address("change_new", cluster=cluster.slug, object=place.key) if may else ""


def team_ask_url(user: User, team: Team, cluster_slug: str) -> str:
    return address("change_new", cluster=cluster_slug, team=team.slug) if may_ask_for(user, team) else ""


def replace_url(user: User, request: ChangeRequest) -> str:
    """Of what waits for a decision or its time and cannot be edited any more: another one in its place."""
    waits = request.origin == Origin.ASKED and request.state in (State.AWAITING, State.APPROVED)
    return (
        address("change_new", replaces=str(request.pk)) if waits and may_ask_for(user, request.team) else ""
    )


def tried_ask_url(user: User, scene: Scene, changes: Sequence[Json]) -> str:
    """Of what was tried on the what-if page, where all that it changes of queues is theirs to ask for."""
    edits = [one for one in changes if one.get("kind") != "Workload"]
    own = asks_for(user)
    if not edits or own == []:
        return ""
    editable = Editable.of(scene, own)
    if any(editable.find(Place.of(edit)) is None for edit in edits):
        return ""
    return address("change_new", cluster=scene.cluster.slug, change=dump_changes(changes))
