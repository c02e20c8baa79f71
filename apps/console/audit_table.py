"""The table of the audit trail. Input: entries; output: HTML with what differs opened in place, and the CSV, where before
and after are JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from django.contrib import admin
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.changes.audit_differences import differences
from apps.changes.audit_signals import WATCHED
from apps.changes.models import AuditEntry
from apps.changes.requests import SUBJECT
from apps.console.change_words import action_text, actor_text
from apps.console.links import address
from apps.core.tables import NumberColumn, PortalTable, TextColumn, TimeColumn

_ADMIN_PAGES = {model.__name__: model._meta for model in WATCHED}
_DEEDS: Mapping[str, str | Promise] = {
    "create": _("Made"),
    "edit": _("Changed"),
    "delete": _("Deleted"),
    "verify": _("Verified"),
}
_OUTCOMES: Mapping[str, tuple[str, str | Promise]] = {
    "done": ("note", _("done")),
    "refused": ("bad", _("refused")),
}
# One line of an entry is never longer than this on the page; the CSV and REST hold all of it.
LONGEST = 300


def deed_text(action: str) -> str:
    """What was done, in words; what has none reads as it is written."""
    kind, _dot, deed = action.partition(".")
    if kind == "change":
        return action_text(action)
    return str(_DEEDS.get(deed, action))


def action_label(action: str) -> str:
    """A deed with what it is done to, to choose from."""
    name, _dot, _deed = action.partition(".")
    kinds = {"change": SUBJECT, "trail": "AuditTrail"} | {w.name: w.model.__name__ for w in WATCHED.values()}
    return f"{kind_text(kinds[name])}: {deed_text(action)}"


def kind_text(kind: str) -> str:
    """What it was done to, in words."""
    if kind == SUBJECT:
        return str(_("change request"))
    if kind == "AuditTrail":
        return str(_("audit trail"))
    meta = _ADMIN_PAGES.get(kind)
    return str(meta.verbose_name) if meta is not None else kind


def subject_url(entry: AuditEntry, *, staff: bool) -> str:
    """The page of what it was done to; "" where there is none, or no more. `staff`: the reader gets into the admin site."""
    kind, pk = entry.subject_kind, entry.subject_id
    if kind == SUBJECT:
        return address("change", pk)
    if kind in ("Team", "TeamBinding", "Membership") and entry.team_slug:
        return "" if entry.action == "team.delete" else address("team", entry.team_slug)
    if kind == "Cluster" and entry.cluster_slug:
        return address("sources", cluster=entry.cluster_slug)
    meta = _ADMIN_PAGES.get(kind)
    if meta is None or not staff or entry.action.endswith(".delete"):
        return ""
    if not admin.site.is_registered(meta.model):  # a part of something else, such as a price of a rate card
        return ""
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[pk])


class AuditTable(PortalTable):
    """Newest first."""

    caption = _("Who did what")
    file_name = "audit"

    sequence = NumberColumn(verbose_name=_("No."), places=0)
    at = TimeColumn(verbose_name=_("When"))
    actor_name = TextColumn(verbose_name=_("Who"), orderable=False)
    action = TextColumn(verbose_name=_("Deed"), orderable=False)
    subject_label = TextColumn(verbose_name=_("What"), classes="wide", empty_values=(), orderable=False)
    outcome = TextColumn(verbose_name=_("Outcome"), hide_small=True, orderable=False)
    reason = TextColumn(verbose_name=_("Why"), classes="wide", hide_small=True, orderable=False)
    address = TextColumn(verbose_name=_("From where"), hide_small=True, orderable=False)
    team_slug = TextColumn(verbose_name=_("Team"), visible=False)
    cluster_slug = TextColumn(verbose_name=_("Cluster"), visible=False)
    subject_kind = TextColumn(verbose_name=_("Kind"), visible=False)
    subject_id = TextColumn(verbose_name=_("Identifier"), visible=False)
    before = TextColumn(verbose_name=_("Before"), visible=False)
    after = TextColumn(verbose_name=_("After"), visible=False)
    resource_version = TextColumn(verbose_name=_("Resource version"), visible=False)
    previous_hash = TextColumn(verbose_name=_("Hash before"), visible=False)
    hash = TextColumn(verbose_name=_("Hash"), visible=False)

    staff = False

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing of this kind was recorded.")

    def render_actor_name(self, value: str) -> str:
        return actor_text(value)

    def value_actor_name(self, record: AuditEntry) -> str:
        return record.actor_name

    def render_action(self, value: str) -> str:
        return deed_text(value)

    def value_action(self, record: AuditEntry) -> str:
        return record.action

    def render_subject_label(self, record: AuditEntry) -> SafeString:
        """What it was done to, and behind a disclosure that works without a script what differs."""
        kind = kind_text(record.subject_kind)
        asked = record.subject_kind == SUBJECT
        name = f"{kind} #{record.subject_id}" if asked else f"{kind} {record.subject_label}"
        url = subject_url(record, staff=self.staff)
        what = format_html('<a href="{}">{}</a>', url, name) if url else format_html("{}", name)
        return format_html("{}{}{}", what, _objects(record) if asked else "", _opened(record))

    def value_subject_label(self, record: AuditEntry) -> str:
        return record.subject_label

    def render_outcome(self, value: str) -> SafeString:
        tone, words = _OUTCOMES.get(value, ("note", value))
        return format_html('<span class="sev {}">{}</span>', tone, words)

    def value_outcome(self, record: AuditEntry) -> str:
        return record.outcome

    def value_before(self, record: AuditEntry) -> str:
        return _json(record.before)

    def value_after(self, record: AuditEntry) -> str:
        return _json(record.after)


def _objects(entry: AuditEntry) -> SafeString:
    """The queues that a request names, each with its page, on lines of their own."""
    links = []
    for name in filter(None, entry.subject_label.split(", ")):
        kind, *parts = name.split("/")
        if not parts or len(parts) > 2:
            links.append(("", name))
            continue
        namespace = parts[0] if len(parts) == 2 else ""
        links.append((address("queue", entry.cluster_slug, kind, parts[-1], namespace=namespace), name))
    shown = (format_html('<a href="{}">{}</a>', *link) if link[0] else link[1] for link in links)
    return format_html_join("", "<div>{}</div>", ((one,) for one in shown))


def _opened(entry: AuditEntry) -> SafeString | str:
    lines = differences(entry.before, entry.after)
    if not lines:
        return ""
    shown = format_html_join(
        "",
        '<li><span class="mono">{}</span>: {} → {}</li>',
        ((line.field, _side("del", line.before), _side("ins", line.after)) for line in lines),
    )
    version = ""
    if entry.resource_version:
        version = format_html("<li>{}: {}</li>", _("Resource version"), entry.resource_version)
    return format_html(
        '<details class="twin"><summary>{}</summary><ul class="differences">{}{}</ul></details>',
        _("before and after"),
        shown,
        version,
    )


def _side(tag: str, value: str | None) -> SafeString:
    if value is None:
        return format_html('<span class="muted">{}</span>', _("nothing"))
    short = value if len(value) <= LONGEST else f"{value[:LONGEST]}…"
    return format_html("<{0}>{1}</{0}>", tag, short or "“”")


def _json(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
