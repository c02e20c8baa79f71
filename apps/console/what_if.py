"""`/queues/what-if/`: try a change of quota or work before making it. Nothing is written.

GET shows the form and, with `change=` (the changes as compact JSON), the result: the address of a result can be sent
to others. POST reads the form, adds what it says to the change and answers with that address; what cannot be tried is
said in one list at the top, which takes the focus, and beside the inputs. Works without a script.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts.selectors import visible_teams
from apps.console.access import reader
from apps.console.change_form_links import tried_ask_url
from apps.console.edit_words import describe
from apps.console.frame import Page
from apps.console.what_if_tables import (
    EffectTable,
    HoldersTable,
    NumbersTable,
    StillWaitingTable,
    effect_rows,
    holder_rows,
    number_rows,
    waiting_rows,
)
from apps.core.tables import PortalTable, table_csv, wants_csv
from apps.fleet.registry import is_device
from apps.observations.models import Source
from apps.quotas.situation import Scene, load_scene
from apps.quotas.what_if import Answer, TooMuch, allowed_names, try_changes
from apps.quotas.what_if_apply import Names
from apps.quotas.what_if_change import POLICY_PLACES, ChangeError, ChangeFault, parse_changes
from apps.quotas.what_if_form import (
    Json,
    Target,
    cell_rows,
    cohort_names,
    dump_changes,
    edited_values,
    find_target,
    flavor_boxes,
    load_changes,
    policy_fields,
    present_values,
    with_edit,
    with_job,
    with_work,
    without,
)
from apps.quotas.what_if_places import PlacedFault, as_on_the_page, in_words, listed_id, place
from apps.quotas.what_if_words import fault_text, gap_text, note_text, policy_name, summary, too_much_text

SHOWN = 25


@dataclass(slots=True)
class _Trial:
    """One request: the cluster as it is, what the reader may name, the change so far and what came of it."""

    page: Page
    scene: Scene
    names: Names
    changes: list[Json]
    target: Target | None
    given: list[Json] = field(default_factory=list)
    """The changes as they came, before the form was read into `changes`."""
    faults: list[PlacedFault] = field(default_factory=list)
    answer: Answer | None = None

    def run(self) -> None:
        if not self.changes:
            return
        try:
            parsed = parse_changes(self.changes)
            self.answer = try_changes(self.scene, parsed, team_ids=self.page.team_ids)
        except ChangeError as error:
            if any(fault.code == "unknown" for fault in error.faults) and self.page.request.method == "GET":
                raise Http404 from None
            self.faults += [self._fault(fault) for fault in error.faults]
        except TooMuch as error:
            self.complain(too_much_text(error))

    def complain(self, text: str) -> None:
        """A fault that no input is to blame for."""
        self.faults.append(PlacedFault("", "", text, text))

    def _fault(self, fault: ChangeFault) -> PlacedFault:
        name, target = place(
            fault.field,
            self.changes,
            given=self.given,
            target=self.target,
            job_resource=self.page.request.POST.get("job_resource", "").strip(),
        )
        where, text = in_words(fault.field, self.changes), fault_text(fault)
        return PlacedFault(name, target, text, f"{where}: {text}" if where else text)


@require_http_methods(["GET", "HEAD", "POST"])
def what_if(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=(Source.KUEUE,))
    cluster = page.cluster or (page.clusters[0] if len(page.clusters) == 1 else None)
    if cluster is None:
        return page.render("console/what_if.html", {"clusters": page.all_clusters}, section="queues")
    data = request.POST if request.method == "POST" else request.GET
    scene = load_scene(now=page.now, cluster=cluster)
    names = allowed_names(scene, page.team_ids)
    changes = load_changes(data.get("change", ""))
    target = _target(scene, names, data.get("queue", ""))
    readable = changes is not None and all(isinstance(change, dict) for change in changes)
    given = changes if changes is not None and readable else []
    trial = _Trial(page, scene, names, given, target, given)
    if not readable:
        trial.complain(_("The change in the address cannot be read."))
    if request.method == "POST":
        _read_form(trial)
        trial.run()
        if not trial.faults:
            return HttpResponseRedirect(_address(trial), status=303)
    else:
        trial.run()
    return _show(trial)


def _target(scene: Scene, names: Names, key: str) -> Target | None:
    """The queue to edit; 404 for what is not there or not the reader's."""
    if not key:
        return None
    found = find_target(scene.situation, key)
    if found is None or not (
        names.queue(found.node.name) if found.kind == "ClusterQueue" else not names.restricted
    ):
        raise Http404
    return found


def _read_form(trial: _Trial) -> None:
    data = trial.page.request.POST
    if (place := data.get("drop", "")).isdecimal():
        trial.changes = without(trial.changes, int(place))
        return
    if trial.target is not None and "edit" in data:
        trial.changes = with_edit(trial.changes, trial.target, data.dict())
    trial.changes = with_job(trial.changes, data.dict())
    allowed = trial.names.work
    uids = {
        f"{work.namespace}/{work.name}": work.uid
        for work in trial.scene.situation.work
        if allowed is None or work.uid in allowed
    }
    trial.changes = with_work(trial.changes, data.dict(), uids)


def _address(trial: _Trial, *, changes: list[Json] | None = None) -> str:
    chosen = trial.changes if changes is None else changes
    query = {
        "cluster": trial.scene.cluster.slug,
        "queue": trial.target.key if trial.target else "",
        "change": dump_changes(chosen) if chosen else "",
    }
    return f"{reverse('console:what_if')}?{urlencode({k: v for k, v in query.items() if v})}"


def _show(trial: _Trial) -> HttpResponseBase:
    page, answer = trial.page, trial.answer
    teams = {team.pk: team.name for team in visible_teams(reader(page.request))}

    def team_name(team_id: int | None) -> str:
        return teams.get(team_id, "") if team_id is not None else _("Work of nobody")

    context: dict[str, Any] = {}
    if answer is not None:
        numbers, holders = number_rows(answer), holder_rows(answer, team_name)
        tables: dict[str, PortalTable] = {
            "effects": EffectTable(effect_rows(answer, team_name), prefix="e-"),
            "still_waiting": StillWaitingTable(waiting_rows(answer, team_name), prefix="w-"),
            "numbers": NumbersTable(numbers, prefix="n-"),
            "holders": HoldersTable(holders, prefix="t-"),
        }
        for name, table in tables.items():
            if wants_csv(page.request, name):
                return table_csv(table, page.request)
        # The downloads hold every resource; the page shows accelerators first and folds away the rest.
        devices = [row for row in numbers if is_device(row.line.resource)]
        tables["numbers"] = NumbersTable(devices, prefix="n-")
        tables["holders"] = HoldersTable([row for row in holders if is_device(row.resource)], prefix="t-")
        tables["other_numbers"] = NumbersTable(
            [row for row in numbers if not is_device(row.line.resource)], prefix="m-"
        )
        tables["other_holders"] = HoldersTable(
            [row for row in holders if not is_device(row.resource)], prefix="u-"
        )
        context = {name: page.prepare(table, per_page=SHOWN) for name, table in tables.items()}
        context |= {
            "answer": answer,
            "summary": summary(answer, accelerator=is_device, team_name=team_name),
            "notes": [note_text(note) for note in answer.notes],
            "ask_url": tried_ask_url(reader(page.request), trial.scene, trial.changes),
            "not_modelled": [gap_text(code) for code in answer.gaps],
        }
    # A silent refresh would take away what is typed, and settle everything again.
    return page.render(
        "console/what_if.html", {**context, **_form(trial), "refresh_seconds": 0}, section="queues"
    )


def _form(trial: _Trial) -> dict[str, Any]:
    situation, names, target = trial.scene.situation, trial.names, trial.target
    posted = trial.page.request.POST
    values = edited_values(target, trial.changes) if target else {}
    resources = {resource for queue in situation.queues for _flavor, resource in queue.node.cells}
    own = {resource for _flavor, resource in target.node.cells} if target else set()
    devices = sorted(filter(is_device, resources), key=lambda name: (name not in own, name))
    works = situation_names(trial)
    placed = {fault.name for fault in trial.faults}
    rows = cell_rows(target, trial.changes) if target else []
    return {
        "cluster": trial.scene.cluster,
        "queues": sorted(queue.name for queue in situation.queues if names.queue(queue.name)),
        "local_queues": sorted("/".join(key) for key in names.local_queues),
        "cohorts": [name for name in cohort_names(situation) if names.cohort(name)],
        "cohorts_editable": [] if names.restricted else cohort_names(situation),
        "target": target,
        "values": values,
        "rows": rows,
        "new_row_named": bool(
            posted.get("new_flavor", "").strip() and posted.get("new_resource", "").strip()
        ),
        "flavors": flavor_boxes(target, trial.changes) if target else [],
        "all_flavors": sorted(situation.flavors) if not names.restricted else [],
        "policy": [(field, policy_name(field.name)) for field in policy_fields(target, values)]
        if target
        else [],
        "policy_edited": target is not None and values != present_values(target),
        "devices": devices,
        "posted": posted,
        "changes": [(listed_id(at), at, describe(change, works)) for at, change in enumerate(trial.given)],
        # What the form itself says stays on the form: sent again, it must not be tried twice.
        "change": dump_changes(trial.given) if trial.given else "",
        "faults": as_on_the_page(trial.faults, rows),
        "policy_faults": bool(placed & {*POLICY_PLACES, "max_priority_threshold"}),
        "share": trial.page.request.build_absolute_uri(_address(trial)),
    }


def situation_names(trial: _Trial) -> dict[str, str]:
    """uid → name of the existing work that the change names, of work that the reader may see."""
    wanted = {str(change.get("uid")) for change in trial.changes if change.get("uid")}
    if trial.names.work is not None:
        wanted &= set(trial.names.work)
    return {
        work.uid: f"{work.namespace}/{work.name}" for work in trial.scene.situation.work if work.uid in wanted
    }
