"""The small fleet of the access tests, with a second platform admin, and requests about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from apps.accounts.models import User
from apps.api.tests.world import GPU, World, make_world
from apps.changes.models import ChangeRequest, ChangeStep
from apps.changes.requests import Wanted
from apps.changes.services import create_request
from apps.changes.transitions import perform
from tests.receiving import hook, mailbox

__all__ = ["hook", "mailbox"]

NOMINAL = {
    "kind": "ClusterQueue",
    "name": "red-cq",
    "set": {"quotas": [{"flavor": "h100", "resource": GPU, "nominal": "12"}]},
}
CLEAN: dict[str, Any] = {"refusals": [], "warnings": [], "what_if": None, "dry_run": []}
BEFORE = {"cohort": "all", "nominal": "8"}
AFTER = {"cohort": "all", "nominal": "12"}


@dataclass
class Desk:
    """Who does what at which version, in one word."""

    world: World

    def person(self, name: str) -> User:
        return self.world.users[name]

    def ask(self, who: str = "red_lead", **more: Any) -> ChangeRequest:
        given: dict[str, Any] = {
            "cluster": self.world.east,
            "team": self.world.red,
            "edits": [NOMINAL],
            "reason": "a new model",
        }
        return create_request(Wanted(**given | more), actor=self.person(who), now=self.world.now)

    def do(self, name: str, request: ChangeRequest, who: str | None = None, **more: Any) -> ChangeRequest:
        """`who` None: the portal's worker. The version is the present one unless given."""
        present = ChangeRequest.objects.get(pk=request.pk).version
        given: dict[str, Any] = {
            "actor": None if who is None else self.person(who),
            "seen_version": present,
            "now": self.world.now,
        }
        return perform(name, request.pk, **given | more)

    def checked(self, request: ChangeRequest, report: dict[str, Any] = CLEAN) -> ChangeRequest:
        return self.do("note_check", request, fields={"report": report}, steps=[a_step()])

    def approved(self, **more: Any) -> ChangeRequest:
        request = self.do("submit", self.checked(self.ask(**more)), "red_lead")
        return self.do("approve", request, "admin")

    def applied(self, **more: Any) -> ChangeRequest:
        request = self.do("begin", self.approved(**more))
        request.steps.update(done_at=self.world.now, sent_at=self.world.now, written_version="43")
        return self.do("finish", request)


def a_step(position: int = 0) -> ChangeStep:
    return ChangeStep(
        position=position,
        kind="ClusterQueue",
        name="red-cq",
        path="/apis/kueue.x-k8s.io/v1beta2/clusterqueues/red-cq",
        resource_version="42",
        body=[{"op": "replace", "path": "/spec/nominal", "value": "12"}],
        before=BEFORE,
        after=AFTER,
    )


@pytest.fixture
def desk(db: None) -> Desk:
    world = make_world()
    second = User(username="approver", role="platform_admin", email="approver@example.com")
    second.set_unusable_password()
    second.save()
    world.users["approver"] = second
    return Desk(world)
