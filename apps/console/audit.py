"""`/audit/`: who did what, when, from where and why. For platform admins: an entry may be of any team. To others the page
does not exist.

The chain is not verified here, which would read all of it: the page shows its tip and how far it was last verified."""

from __future__ import annotations

from dataclasses import replace

from django.http import Http404, HttpRequest, HttpResponseBase

from apps.changes import audit as trail
from apps.changes.audit_filters import ACTIONS, KINDS, AuditForm
from apps.changes.models import AuditEntry
from apps.changes.selectors import inbox_count
from apps.console.access import named_or_404, reader
from apps.console.audit_table import AuditTable, action_label, kind_text
from apps.console.frame import Page
from apps.core.tables import table_csv, wants_csv
from apps.observations.selectors import AsOf, State

_TEXTS = ("who", "team", "about", "q", "from", "to")


def audit(request: HttpRequest) -> HttpResponseBase:
    who = reader(request)
    if not who.is_platform_admin:
        raise Http404
    opened = Page.open(request, sources=())
    # The trail is the portal's own: it is as of now, whatever was read from the clusters.
    page = replace(opened, as_of=AsOf(observed_at=opened.now, state=State.OK))
    form = AuditForm(request.GET, now=page.now)
    valid = form.is_valid()
    named_or_404(form)
    entries = AuditEntry.objects.order_by("-sequence")
    table = AuditTable(form.keep(entries) if valid else entries.none())
    table.staff = who.is_staff
    if wants_csv(request, "audit"):
        return table_csv(table, request)
    count, tip = trail.tip()
    context = {
        "form": form,
        "actions": [(name, action_label(name)) for name in ACTIONS],
        "kinds": [(kind, kind_text(kind)) for kind in KINDS],
        "texts": [(name, form.fields[name].label, request.GET.get(name, "")) for name in _TEXTS],
        "kept": [("id", request.GET["id"])] if request.GET.get("id") else [],
        "filtered": any(request.GET.get(name) for name in form.fields if name != "cluster"),
        "waiting": inbox_count(who),
        "count": count,
        "tip": tip,
        "verified": trail.last_verified(),
        "table": page.prepare(table),
    }
    return page.render("console/audit.html", context, section="changes")
