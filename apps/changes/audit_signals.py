"""What people maintain lands in the trail: each save and delete of `WATCHED`, from the admin site, a command or code.

Input: Django's signals; output: an entry with what differs, before and after, by whoever acts (`acting`). Invariants
- Nothing differs, nothing is recorded; columns that are no deed (a login) count for nothing.
- Values are read from the database before and after, never from the object in memory. Relations read as the name of what
  they lead to, since numbers say nothing once it is deleted.
- A password or the digest of a token is never recorded, nor what an address says in front of its host or after its "?":
  only that it changed.
- In a transaction the trail is locked before the row; the entry is of the same transaction as the deed.

Bulk writes of the ORM (`update`, `bulk_create`, `bulk_update`) send no signals: nothing in the project may use them on
these models (a test reads the whole project for it)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from django.apps import apps
from django.db import connection, transaction
from django.db.models import Field, ForeignKey, Model, URLField
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete, pre_save
from django.utils import timezone

from apps.accounts.models import ApiToken, Membership, Team, User
from apps.changes import audit
from apps.changes.acting import acting
from apps.fleet.models import Cluster, Reserve, TeamBinding

Values = dict[str, Any]
DEEDS = ("create", "edit", "delete")
HIDDEN = "***"
_SECRET = frozenset({"password", "secret_digest"})
_NAMES: Mapping[type[Model], str] = {Team: "slug", Cluster: "slug", User: "username"}
_KEPT = "_before_the_deed"


@dataclass(frozen=True, slots=True)
class Watched:
    """`name` begins the action ("team.edit"); `label`, `team` and `cluster` are lookups: what to call it and which team's
    and cluster's it is. `no_deed`: columns that change by themselves."""

    model: type[Model]
    name: str
    label: tuple[str, ...]
    team: str = ""
    cluster: str = ""
    no_deed: frozenset[str] = frozenset()

    @cache  # noqa: B019 -- there are as many of these as models, for good
    def columns(self) -> Mapping[str, Field[Any, Any]]:
        return {
            field.name: field
            for field in self.model._meta.concrete_fields
            if not field.primary_key and field.name not in self.no_deed
        }

    @cache  # noqa: B019
    def lookups(self) -> Mapping[str, str]:
        return {name: _lookup(field) for name, field in self.columns().items()}

    def concerned(self, names: Collection[str] | None) -> bool:
        """`names`: the only fields that are written; None: all."""
        if names is None:
            return True
        return any(name in names or field.attname in names for name, field in self.columns().items())

    def read(self, pk: Any, *, raw: bool = False) -> Values | None:
        """What is stored under `pk`; "…" holds what describes it. `raw`: what it leads to may not be stored yet."""
        lookups = self.lookups()
        if raw:
            lookups = {name: field.attname for name, field in self.columns().items()}
        about = () if raw else (*self.label, self.team, self.cluster)
        wanted = [*lookups.values(), *(name for name in about if name)]
        row = self.model._base_manager.filter(pk=pk).values(*dict.fromkeys(wanted)).first()
        if row is None:
            return None
        return {name: row[lookup] for name, lookup in lookups.items()} | {"…": row}

    def subject(self, pk: Any, values: Values) -> audit.Subject:
        row: Values = values["…"]
        label = " ".join(str(row[name]) for name in self.label if row.get(name) not in (None, ""))
        return audit.Subject(
            self.model.__name__,
            str(pk),
            label=label,
            team=str(row.get(self.team) or ""),
            cluster=str(row.get(self.cluster) or ""),
        )


WATCHED: Mapping[type[Model], Watched] = {
    watched.model: watched
    for watched in (
        Watched(Cluster, "cluster", ("slug",), cluster="slug"),
        Watched(Team, "team", ("slug",), team="slug"),
        Watched(User, "user", ("username",), no_deed=frozenset({"last_login", "date_joined"})),
        Watched(ApiToken, "token", ("user__username", "name"), no_deed=frozenset({"last_used_at"})),
        Watched(Membership, "membership", ("user__username", "team__slug"), team="team__slug"),
        Watched(
            TeamBinding,
            "binding",
            ("kind", "namespace", "name"),
            team="team__slug",
            cluster="cluster__slug",
        ),
        Watched(Reserve, "reserve", ("model", "sharing_mode", "selector", "reason"), cluster="cluster__slug"),
        # Rate cards and budgets are chargeback's own; of them only the columns matter here.
        Watched(
            apps.get_model("chargeback", "RateVersion"), "rate_card", ("currency", "valid_from", "state")
        ),
        Watched(
            apps.get_model("chargeback", "RatePrice"),
            "price",
            ("version_id", "basis", "group", "model", "sharing_mode", "profile"),
            cluster="cluster__slug",
        ),
        Watched(
            apps.get_model("chargeback", "RateGroupCluster"),
            "rate_group_cluster",
            ("version_id", "group"),
            cluster="cluster__slug",
        ),
        Watched(
            apps.get_model("chargeback", "Budget"), "budget", ("team__slug", "from_month"), team="team__slug"
        ),
    )
}


def connect() -> None:
    """Listen. Called once, when all models are there."""
    for model in WATCHED:
        pre_save.connect(_before_save, sender=model, dispatch_uid="trail")
        post_save.connect(_after_save, sender=model, dispatch_uid="trail")
        pre_delete.connect(_before_delete, sender=model, dispatch_uid="trail")
        post_delete.connect(_after_delete, sender=model, dispatch_uid="trail")
    m2m_changed.connect(_members_added, sender=Team.members.through, dispatch_uid="trail")


def _before_save(
    sender: type[Model], instance: Model, raw: bool, update_fields: Collection[str] | None, **_: Any
) -> None:
    watched = WATCHED[sender]
    if not watched.concerned(update_fields):
        return
    _lock()
    known = None if instance.pk is None else watched.read(instance.pk, raw=raw)
    instance.__dict__[_KEPT] = known


def _after_save(
    sender: type[Model], instance: Model, raw: bool, update_fields: Collection[str] | None, **_: Any
) -> None:
    watched = WATCHED[sender]
    if watched.concerned(update_fields):
        before = instance.__dict__.pop(_KEPT, None)
        _record(watched, instance.pk, before, watched.read(instance.pk, raw=raw))


def _before_delete(sender: type[Model], instance: Model, **_: Any) -> None:
    _lock()
    instance.__dict__[_KEPT] = WATCHED[sender].read(instance.pk)


def _after_delete(sender: type[Model], instance: Model, **_: Any) -> None:
    _record(WATCHED[sender], instance.pk, instance.__dict__.pop(_KEPT, None), None)


def _members_added(
    sender: type[Model], instance: Model, action: str, pk_set: Collection[int] | None, reverse: bool, **_: Any
) -> None:
    """`team.members.add()` and its reverse write in bulk; what they take away is deleted row by row."""
    if action != "post_add" or not pk_set:
        return
    mine, theirs = ("user_id", "team_id__in") if reverse else ("team_id", "user_id__in")
    watched = WATCHED[sender]
    found = sender._base_manager.filter(**{mine: instance.pk, theirs: pk_set})
    for pk in found.order_by("pk").values_list("pk", flat=True):
        _record(watched, pk, None, watched.read(pk))


def _lock() -> None:
    """Outside of a transaction the row is written by the time there is one."""
    if connection.in_atomic_block:
        audit.lock()


def _record(watched: Watched, pk: Any, before: Values | None, after: Values | None) -> None:
    known = after or before
    if known is None:
        return
    was, now = before or {}, after or {}
    columns = watched.columns()
    differs = [name for name in columns if before is None or after is None or was[name] != now[name]]
    if not differs:
        return
    deed = "create" if before is None else "delete" if after is None else "edit"
    pairs = {name: _shown(columns[name], was.get(name), now.get(name)) for name in differs}
    locked = connection.in_atomic_block
    with transaction.atomic(savepoint=False):
        audit.record(
            f"{watched.name}.{deed}",
            watched.subject(pk, known),
            by=acting(),
            at=timezone.now(),
            before=None if before is None else {name: pair[0] for name, pair in pairs.items()},
            after=None if after is None else {name: pair[1] for name, pair in pairs.items()},
            locked=locked,
        )


def _lookup(field: Field[Any, Any]) -> str:
    """Of a relation the name of what it leads to."""
    if isinstance(field, ForeignKey):
        related = field.related_model
        name = _NAMES.get(related) if isinstance(related, type) else None
        return field.attname if name is None else f"{field.name}__{name}"
    return field.name


def _shown(field: Field[Any, Any], before: Any, after: Any) -> tuple[Any, Any]:
    """Before and after as they may be kept: secrets only by whether they changed."""
    if field.name in _SECRET:
        return (HIDDEN, "changed") if before and after else (before and HIDDEN, after and HIDDEN)
    if not isinstance(field, URLField):
        return before, after
    was, now = masked(before), masked(after)
    return was, f"{now} (other credentials)" if was and was == now else now


def masked(url: str | None) -> str | None:
    """An address without what lets somebody in: the name and password in front of its host, the values of its query."""
    if not url:
        return url
    try:
        parts = urlsplit(url)
        query = "&".join(f"{name}={HIDDEN}" for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        return HIDDEN
    _, at, host = parts.netloc.rpartition("@")
    return urlunsplit((parts.scheme, f"{HIDDEN}@{host}" if at else host, parts.path, query, ""))
