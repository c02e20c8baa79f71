"""Writes to team bindings and reserves. Input: what to bind to whom or to keep back, from when; output: the row.

Invariants
- One owner at a time. Writers of the same thing queue up on its lock before they check, so that the loser of a
  race is told the same as somebody who asks for a taken period; a trigger refuses whatever goes past this module.
- History is not rewritten: a change of owner ends one binding and starts the next at the same instant. The same
  for a reserve: a stored one only gets an end, and one that is over keeps it.
- What is kept of who did it is locked before what it is about, so that no two writers wait for each other.
"""

from __future__ import annotations

from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Team, User
from apps.core.trail_lock import lock_trail
from apps.fleet.models import Cluster, Reserve, TeamBinding


def binding_open(
    *,
    team: Team,
    cluster: Cluster,
    kind: str,
    name: str,
    namespace: str = "",
    valid_from: datetime,
    valid_to: datetime | None = None,
    take_over: bool = False,
) -> TeamBinding:
    """Bind a thing to a team. With `take_over` the binding that is in force at `valid_from` ends there instead
    of standing in the way."""
    binding = TeamBinding(
        team=team,
        cluster=cluster,
        kind=kind,
        namespace=namespace,
        name=name,
        valid_from=valid_from,
        valid_to=valid_to,
    )
    return binding_save(binding=binding, take_over=take_over)


@transaction.atomic
def binding_save(*, binding: TeamBinding, take_over: bool = False) -> TeamBinding:
    """Check and store a binding; see `binding_open`."""
    lock_thing(binding=binding)
    if take_over:
        for other in binding.in_the_way_since_earlier().select_for_update(of=("self",)):
            other.valid_to = binding.valid_from
            other.save(update_fields=["valid_to"])
    binding.full_clean()
    binding.save()
    return binding


@transaction.atomic
def binding_close(*, binding: TeamBinding, at: datetime) -> TeamBinding:
    """End a binding at `at`: from that instant on nobody owns the thing."""
    if at <= binding.valid_from:
        raise ValidationError(
            {"valid_to": ValidationError(_("The period ends before it starts."), "backward")}
        )
    lock_thing(binding=binding)
    binding.valid_to = at
    binding.full_clean()
    binding.save(update_fields=["valid_to"])
    return binding


def lock_thing(*, binding: TeamBinding) -> None:
    """Wait for other writers of the same thing and keep them out until the transaction ends."""
    lock_trail()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT fleet_binding_lock(%s, %s, %s, %s)",
            [binding.cluster_id, binding.kind, binding.namespace, binding.name],
        )


@transaction.atomic
def reserve_open(*, reserve: Reserve, by: User | None, replaces: Reserve | None = None) -> Reserve:
    """Check and store a new reserve. `replaces` ends where the new one starts, unless it is over by then."""
    lock_trail()
    if replaces is not None:
        old = Reserve.objects.select_for_update().get(pk=replaces.pk)
        if old.valid_to is None or old.valid_to > reserve.valid_from:
            reserve_close(reserve=old, at=reserve.valid_from, by=by)
    reserve.created_by = by
    reserve.full_clean()
    reserve.save(force_insert=True)
    return reserve


@transaction.atomic
def reserve_close(*, reserve: Reserve, at: datetime | None, by: User | None) -> Reserve:
    """End a reserve at `at`; None takes back an end that lies ahead. An end that has passed stays."""
    lock_trail()
    stored = Reserve.objects.select_for_update().get(pk=reserve.pk)
    if stored.valid_to is not None and stored.valid_to <= timezone.now():
        raise ValidationError({"valid_to": ValidationError(_("This reserve is over."), "over")})
    stored.valid_to, stored.ended_by = at, None if at is None else by
    stored.full_clean()
    stored.save(update_fields=["valid_to", "ended_by"])
    reserve.valid_to, reserve.ended_by = stored.valid_to, stored.ended_by
    return stored
