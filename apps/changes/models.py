"""Quota change requests, what they plan to write, and the audit trail.

A request is what a person wants and why; its steps are what would be written, object by object, in a safe order; the
trail says who did what. Invariants: `state` is written by `transitions` alone; a step's `before`, `after` and
`resource_version` are those that the approver saw; the trail is append-only (a trigger refuses everything else)."""

# ruff: noqa: DJ008  facts are shown by their columns, never by str()
from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Team, User
from apps.core.outgoing import Outgoing, once, to_send
from apps.fleet.models import Cluster


class State(models.TextChoices):
    DRAFT = "draft", _("Draft")
    CHECKED = "checked", _("Checked")
    AWAITING = "awaiting_approval", _("Awaiting approval")
    APPROVED = "approved", _("Approved")
    APPLYING = "applying", _("Applying")
    APPLIED = "applied", _("Applied, waiting to be observed")
    OBSERVED = "observed", _("Observed")
    REJECTED = "rejected", _("Rejected")
    CANCELLED = "cancelled", _("Cancelled")
    FAILED = "failed", _("Failed")
    SUPERSEDED = "superseded", _("Superseded")
    EXPIRED = "expired", _("Expired")


FINAL_STATES = frozenset(
    {State.OBSERVED, State.REJECTED, State.CANCELLED, State.FAILED, State.SUPERSEDED, State.EXPIRED}
)


class ChangeRequest(models.Model):
    """One request. `edits` is the wanted change in the language of `apps.changes.edits`; `version` counts every
    transition and every edit, so that nobody decides on what they have not seen. `check_wanted_at`: a check was asked
    for and has not been done; `report`: what the last check found (`checks.report_json`)."""

    class Origin(models.TextChoices):
        ASKED = "asked", _("Asked for")
        UNDO = "undo", _("Undo of another change")
        END = "end", _("End of a time-bound change")

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    team = models.ForeignKey(
        Team, on_delete=models.PROTECT, null=True, related_name="+", help_text="for whom; empty: the platform"
    )
    origin = models.CharField(max_length=10, choices=Origin.choices, default=Origin.ASKED)
    reverts = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="reverted_by")
    replaces = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="replaced_by")
    state = models.CharField(max_length=20, choices=State.choices, default=State.DRAFT)
    version = models.IntegerField(default=1)
    edits = models.JSONField()
    reason = models.TextField()
    starts_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    check_wanted_at = models.DateTimeField(null=True)
    checked_at = models.DateTimeField(null=True)
    report = models.JSONField(null=True)
    asked_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    decision_reason = models.TextField(default="")
    self_approved = models.BooleanField(default=False)
    applied_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)
    failure = models.TextField(default="")

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=~Q(reason=""), name="change_has_reason"),
            models.CheckConstraint(
                condition=Q(starts_at__isnull=True) | Q(ends_at__isnull=True) | Q(ends_at__gt=F("starts_at")),
                name="change_ends_after_start",
            ),
            models.UniqueConstraint(
                fields=["reverts"],
                condition=Q(origin="end") & ~Q(state__in=["cancelled", "superseded"]),
                name="change_ends_once",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["state", "-created_at"], name="change_by_state"),
            models.Index(fields=["cluster", "-created_at"], name="change_by_cluster"),
            models.Index(fields=["team", "-created_at"], name="change_by_team"),
            models.Index(
                fields=["check_wanted_at"],
                name="change_to_check",
                condition=Q(check_wanted_at__isnull=False),
            ),
        ]


def objects_of(request: ChangeRequest) -> list[str]:
    """What it edits, each once: "ClusterQueue/NAME", "LocalQueue/NAMESPACE/NAME"."""
    names = (
        "/".join(str(edit[part]) for part in ("kind", "namespace", "name") if edit.get(part))
        for edit in request.edits
    )
    return list(dict.fromkeys(names))


class ChangeStep(models.Model):
    """One write to one object. `method`: "patch" (`body` is a JSON patch of spec fields; the precondition is added when
    it is sent) or "command" (`body` is Volcano's Command). `before`/`after`: the spec as the approver saw it and as it
    is to be. `sent_at` is set before the request leaves, `done_at` once the answer or the cluster said that it is in
    effect: between the two only the cluster knows. `written_version`: the resourceVersion after the write."""

    request = models.ForeignKey(ChangeRequest, on_delete=models.CASCADE, related_name="steps")
    position = models.IntegerField()
    kind = models.CharField(max_length=20, help_text="ClusterQueue, Cohort, LocalQueue, VolcanoQueue")
    namespace = models.CharField(max_length=63, default="")
    name = models.CharField(max_length=253)
    method = models.CharField(max_length=10, default="patch")
    path = models.CharField(
        max_length=500, help_text="of the object in the API, with the version that is served"
    )
    object_uid = models.CharField(max_length=128, default="")
    resource_version = models.CharField(max_length=64, default="")
    body = models.JSONField()
    before = models.JSONField()
    after = models.JSONField()
    sent_at = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)
    reversed_at = models.DateTimeField(null=True)
    written_version = models.CharField(max_length=64, default="")
    answer = models.TextField(default="", help_text="what the API server said when it refused")
    observed_at = models.DateTimeField(null=True)
    drift_since = models.DateTimeField(null=True)
    drift = models.JSONField(null=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["position"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["request", "position"], name="change_step_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["kind", "namespace", "name"], name="change_step_by_object")
        ]


class ChangeEffect(models.Model):
    """What a changed queue had at a moment around the change. `moment`: "before", "15m" or "1d". Units of `resource`;
    None where the portal could not see it."""

    request = models.ForeignKey(ChangeRequest, on_delete=models.CASCADE, related_name="effects")
    moment = models.CharField(max_length=10)
    queue = models.CharField(max_length=253)
    resource = models.CharField(max_length=320)
    at = models.DateTimeField()
    nominal = models.DecimalField(max_digits=30, decimal_places=9, null=True)
    held = models.DecimalField(max_digits=30, decimal_places=9, null=True)
    borrowed = models.DecimalField(max_digits=30, decimal_places=9, null=True)
    admitted_workloads = models.IntegerField(null=True)
    waiting_workloads = models.IntegerField(null=True)
    waiting_units = models.DecimalField(max_digits=30, decimal_places=9, null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["request", "moment", "queue", "resource"], name="change_effect_once"
            )
        ]


class AuditEntry(models.Model):
    """One deed. Append-only; `hash` is over the entry and the hash of the entry before (`audit.entry_hash`), `sequence`
    has no holes. `subject_kind`/`subject_id` name what was done to; `outcome`: "done" or "refused"."""

    sequence = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    actor_id = models.BigIntegerField(
        null=True, help_text="of accounts.User; no foreign key: people may be removed"
    )
    actor_name = models.CharField(max_length=150, help_text="as it was then; the portal itself: portal")
    address = models.CharField(
        max_length=64,
        default="",
        help_text="a network address, or the command that was run; empty: the portal's own worker",
    )
    action = models.CharField(max_length=40)
    subject_kind = models.CharField(max_length=40)
    subject_id = models.CharField(max_length=320)
    subject_label = models.CharField(max_length=320, default="")
    team_slug = models.CharField(max_length=80, default="")
    cluster_slug = models.CharField(max_length=60, default="")
    reason = models.TextField(default="")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    resource_version = models.CharField(max_length=64, default="")
    outcome = models.CharField(max_length=10, default="done")
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["subject_kind", "subject_id", "sequence"], name="audit_by_subject"),
            models.Index(fields=["actor_id", "sequence"], name="audit_by_actor"),
            models.Index(fields=["at"], name="audit_by_time"),
        ]


class IdempotencyKey(models.Model):
    """An answer already given to a write by REST, so that the same call made twice does one thing. `digest` is of
    method, path and body: the same key with another call is refused. `status` None: it is being done."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    status = models.IntegerField(null=True)
    body = models.JSONField(null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "key"], name="idempotency_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["created_at"], name="idempotency_by_age")
        ]


class Notice(Outgoing):
    """A message about a state change, written in the transaction that caused it."""

    request = models.ForeignKey(ChangeRequest, on_delete=models.CASCADE, related_name="notices")

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [once("notice_once")]
        indexes: ClassVar[list[models.Index]] = [to_send("notice_to_send")]
