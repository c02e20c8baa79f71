"""Opening and closing a queue of Volcano, which its controller does when a Command asks for it.

Input: a ChangeStep of method "command" and who writes; output: an `Outcome`. Invariants
- Done is what the queue's state says: the controller deletes a Command before it acts and leaves no receipt.
- The name of a step's Command is always the same: while the controller has not taken it, a second one cannot be made.
- Once the server has a Command none is sent again; a second one after the first was acted on would find the queue so.
"""

from __future__ import annotations

import hashlib
import time
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from apps.changes.models import ChangeStep
from apps.changes.planning import COMMANDS_PATH
from worker.clients.errors import CONFLICT, NOT_FOUND, ClientError
from worker.clients.writes import KubeWriter, Served

from .marks import note_done, note_sent, note_taken
from .outcomes import Changed, Outcome, Refused, Waits
from .points import Point, point

NAMESPACE = "default"
WANTED = {"OpenQueue": ("Open",), "CloseQueue": ("Closed", "Closing")}
SEND_AGAIN_AFTER = timedelta(seconds=5)
"""A Command that may have left without an answer: the controller has acted by then, if it has it."""
GIVE_UP_AFTER = timedelta(minutes=15)
"""The controller tries for about a minute to open a queue whose parent is closed, and then lets it be."""
LOOKS, LOOK_SECONDS = 6, 0.5
_TAKEN_UNKNOWN = "taken"


def carry_out(step: ChangeStep, writer: KubeWriter, *, now: datetime) -> Outcome:
    """Do it, or find it done."""
    queue = _look(step, writer, now)
    if not isinstance(queue, Served):
        return queue
    if not step.written_version:
        if step.sent_at is not None and now - step.sent_at < SEND_AGAIN_AFTER:
            return Waits(_("It is not known yet whether the command arrived."))
        outcome = _send(step, queue, writer, now)
        if outcome is not None:
            return outcome
    for _turn in range(LOOKS):
        queue = _look(step, writer, now)
        if not isinstance(queue, Served):
            return queue
        time.sleep(LOOK_SECONDS)
    return _patience(step, queue, writer, now)


def _look(step: ChangeStep, writer: KubeWriter, now: datetime) -> Served | Outcome:
    """The queue while it is not as wanted."""
    try:
        queue = writer.read(step.path)
    except ClientError as error:
        return Changed(gone=True) if error.kind == NOT_FOUND else Waits(error.message)
    if step.object_uid and queue.uid != step.object_uid:
        return Changed(gone=True)
    if state_of(queue) in WANTED[action_of(step)]:
        return note_done(step, queue.resource_version, now)
    return queue


def _send(step: ChangeStep, queue: Served, writer: KubeWriter, now: datetime) -> Outcome | None:
    """None: the server has it."""
    note_sent(step, now)
    try:
        made = writer.create(COMMANDS_PATH, command_of(step, queue.uid))
    except ClientError as error:
        if error.kind == CONFLICT:
            note_taken(step, _TAKEN_UNKNOWN)
            return None
        return Refused(error.said or error.message) if error.is_verdict else Waits(error.message)
    point(Point.AFTER_WRITE)
    note_taken(step, made.resource_version)
    return None


def _patience(step: ChangeStep, queue: Served, writer: KubeWriter, now: datetime) -> Outcome:
    """The server has the Command and the queue is not as wanted."""
    waits = Waits(_("Volcano's controller has not acted on the command yet."))
    if step.sent_at is None or now - step.sent_at < GIVE_UP_AFTER:
        return waits
    try:
        writer.create(COMMANDS_PATH, command_of(step, queue.uid), dry_run=True)
    except ClientError:
        return waits  # it lies there still: the controller is not at work
    words = _("Volcano's controller took the command %(action)s, and the state is still %(state)s.")
    return Refused(words % {"action": action_of(step), "state": state_of(queue)})


def action_of(step: ChangeStep) -> str:
    return str(step.body["action"])


def state_of(queue: Served) -> str:
    """Volcano leaves the state empty until its controller has seen the queue."""
    return str((queue.obj.get("status") or {}).get("state") or "Open")


def command_of(step: ChangeStep, queue_uid: str) -> dict[str, Any]:
    """As Volcano's own command line makes it: owned by the queue, which is also its target."""
    queue = {
        "apiVersion": "/".join(step.path.split("/")[2:4]),
        "kind": "Queue",
        "name": step.name,
        "uid": queue_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": name_of(step), "namespace": NAMESPACE, "ownerReferences": [queue]},
        "target": queue,
        "action": action_of(step),
    }


def name_of(step: ChangeStep) -> str:
    """Told apart from those of another portal, and of another plan of the same request."""
    made = f"{step.request.created_at.isoformat()} {step.pk}"
    digest = hashlib.sha256(made.encode()).hexdigest()[:8]
    return f"gpu-portal-{step.request_id}-{step.position}-{digest}"
