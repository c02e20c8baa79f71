"""What a change request needs of the worker now, decided by its state. Input: its id; output: how far it came.

Invariants
- One worker at a time changes a cluster (`locks`); whoever finds it taken leaves, the next tick comes again.
- Nothing is remembered in the process: whoever comes after a worker that died reads rows and cluster and goes on.
- After a conflict or a refusal nothing more is written. What was not begun goes back to its check; where something was
  done already the request fails, with what was done, and can be taken back.
- The end of a time-bound change is written without being asked again only when its check is clean."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.changes.effects import BEFORE, note_effects
from apps.changes.errors import ChangeRefused
from apps.changes.models import ChangeRequest, ChangeStep, State
from apps.changes.requests import Origin
from apps.changes.transitions import perform, possible
from apps.changes.words import field_words
from worker.clients.errors import ClientError
from worker.clients.writes import KubeWriter

from . import steps
from .checks import Moved, check_request
from .locks import cluster_lock
from .outcomes import Changed, Done, Refused, Waits
from .points import Point, point
from .reading import client_of

logger = logging.getLogger(__name__)
Clock = Callable[[], datetime]
MOST_DEEDS = 12
"""More than any way from a wanted check to applied has."""
BUSY, GONE, OFF = "busy", "gone", "off"


def carry_on(request_id: int, *, clock: Clock = timezone.now) -> str:
    """Do what there is to do; gives the state that it came to, or why nothing was done."""
    request = _load(request_id)
    if request is None:
        return GONE
    if not request.cluster.enabled:
        return OFF
    point(Point.BEFORE_LOCK)
    with cluster_lock(request.cluster_id) as held:
        if not held:
            return BUSY
        point(Point.AFTER_LOCK)
        return _go_on(request_id, clock)


def _go_on(request_id: int, clock: Clock) -> str:
    reached = GONE
    for _deed in range(MOST_DEEDS):
        request = _load(request_id)
        if request is None:
            return GONE
        reached = str(request.state)
        try:
            if not _advance(request, clock):
                break
        except ClientError as error:
            logger.warning("change %s waits: %s", request_id, error.message)
            break
        except (ChangeRefused, Moved) as error:
            logger.info("change %s was moved on meanwhile: %s", request_id, error)
            break
    return reached


def _load(request_id: int) -> ChangeRequest | None:
    return ChangeRequest.objects.select_related("cluster", "decided_by").filter(pk=request_id).first()


def _advance(request: ChangeRequest, clock: Clock) -> bool:
    """One deed; False when there is none, or it has to wait."""
    now = clock()
    if request.check_wanted_at is not None and request.state in (State.DRAFT, State.CHECKED, State.AWAITING):
        check_request(request, client_of(request.cluster), now=now)
        return True
    if request.state == State.APPLYING:
        return _write(request, clock)
    if request.state == State.APPROVED and "begin" in possible(None, request, now=now):
        return _begin(request, now)
    if request.origin == Origin.END and request.starts_at is not None and request.starts_at <= now:
        return _bring_to_its_end(request, now)
    return False


def _do(name: str, request: ChangeRequest, now: datetime, **fields: Any) -> bool:
    perform(name, request.pk, actor=None, seen_version=request.version, now=now, fields=fields)
    return True


def _bring_to_its_end(request: ChangeRequest, now: datetime) -> bool:
    if request.state == State.DRAFT:
        return _do("ask_check", request, now)
    allowed = possible(None, request, now=now)
    for name in ("submit_end", "approve_end"):
        if name in allowed:
            return _do(name, request, now)
    return False


# ---- writing --------------------------------------------------------------------------------------------------------


def _begin(request: ChangeRequest, now: datetime) -> bool:
    point(Point.BEFORE_BEGIN)
    note_effects(request, BEFORE, now)
    _do("begin", request, now)
    point(Point.AFTER_BEGIN)
    return True


def _write(request: ChangeRequest, clock: Clock) -> bool:
    writer = KubeWriter(client_of(request.cluster), acting_as=_in_whose_name(request))
    for step in request.steps.filter(done_at=None).order_by("position"):
        step.request = request
        outcome = steps.carry_out(step, writer, now=clock())
        if isinstance(outcome, Waits):
            logger.warning("change %s, step %s waits: %s", request.pk, step.position, outcome.why)
            return False
        if not isinstance(outcome, Done):
            return _give_up(request, step, outcome, clock())
    _do("finish", request, clock())
    point(Point.AFTER_FINISH)
    return True


def _in_whose_name(request: ChangeRequest) -> str:
    if not settings.IMPERSONATE or request.decided_by is None:
        return ""
    return request.decided_by.username


def _give_up(request: ChangeRequest, step: ChangeStep, outcome: Changed | Refused, now: datetime) -> bool:
    """Back to the check where nothing was written and the object is another; else it has failed."""
    if isinstance(outcome, Refused):
        step.answer = outcome.said
        step.save(update_fields=["answer"])
        words = _("The cluster refused to change %(object)s: %(said)s")
        return _do("fail", request, now, failure=words % {"object": _name_of(step), "said": outcome.said})
    failure = _difference_text(step, outcome)
    if request.steps.exclude(done_at=None).exists():
        return _do("fail", request, now, failure=failure)
    report = {**(request.report or {}), "difference": [_difference(step, outcome)]}
    return _do("back_to_check", request, now, failure=failure, report=report)


def _difference(step: ChangeStep, changed: Changed) -> dict[str, Any]:
    """`before`: as it was approved; `after`: as it is now."""
    return {
        "object": _name_of(step),
        "gone": changed.gone,
        "fields": [{"path": one.path, "before": one.before, "after": one.after} for one in changed.fields],
    }


def _difference_text(step: ChangeStep, changed: Changed) -> str:
    if changed.gone:
        return _("%(object)s is not there any more.") % {"object": _name_of(step)}
    words = _("%(object)s has been changed since it was checked: %(fields)s.")
    return words % {"object": _name_of(step), "fields": "; ".join(field_words(changed.fields))}


def _name_of(step: ChangeStep) -> str:
    return "/".join(part for part in (step.kind, step.namespace, step.name) if part)
