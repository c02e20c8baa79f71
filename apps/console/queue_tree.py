"""The tree of `/queues/` as lines of HTML. Input: a forest of `QueueNode`s; output: rows of one table.

Invariants
- What a node sums up is what its lines add up to when it is opened: children, a cohort's own quota, and (for who
  does not see all of them) one line for the queues of others.
- Amounts of different kinds of units are never added up; a line is of one kind of unit or of one flavor.
- Lines are written here and not in a template, and lean: a page may hold a thousand. Columns get their looks by place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.console.links import address, queue_url
from apps.core.formats import NOT_APPLICABLE, listed, number_text, resource_text
from apps.core.gpu import unit_label
from apps.quotas.filters import flat
from apps.quotas.rows import QueueNode, QuotaRow
from apps.quotas.sentences import amount_text, is_bytes, noun_of

ZERO = Decimal(0)
LINES_OPEN = 60
"""So many lines a page opens by itself."""
MOST_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Amounts:
    """One line: what a node has of one flavor, or of one kind of unit over its flavors. None: it has no such book
    (Volcano's borrowing), or nothing is set. `free` is never negative, `over` says by how much it would be."""

    label: str
    note: str
    resource: str
    reserved: Decimal
    nominal: Decimal | None
    borrowed: Decimal | None
    lent: Decimal | None
    free: Decimal | None
    over: Decimal
    ceiling: Decimal | None
    pending: Decimal
    waiting: int

    @classmethod
    def of(cls, row: QuotaRow) -> Amounts:
        free = row.available
        known = row.accelerator and row.unit != "device"
        noun = noun_of(row) if known else unit_text(row) if row.accelerator else resource_text(row.resource)
        return cls(
            label=row.flavor or noun,
            note=noun if row.flavor else "",
            resource=row.resource,
            reserved=row.reserved,
            nominal=row.nominal,
            borrowed=row.borrowed,
            lent=row.lent,
            free=None if free is None else max(ZERO, free),
            over=max(ZERO, -free) if free is not None else ZERO,
            ceiling=row.ceiling,
            pending=row.pending,
            waiting=row.waiting,
        )


def unit_text(row: QuotaRow) -> str:
    """The kind of unit that a row counts: "GPU", "mig-1g.10gb", "GPU, time slices"."""
    name = resource_text(row.resource)
    if row.unit in ("card", "") or "mig-" in name:
        return name
    unit = _("on no known node") if row.unit == "device" else unit_label(row.unit)
    return listed([name, unit])


def by_unit(rows: Iterable[QuotaRow]) -> list[Amounts]:
    """One line per kind of unit, over the flavors."""
    kinds: dict[tuple[str, str], list[QuotaRow]] = {}
    for row in rows:
        kinds.setdefault((row.resource, row.unit), []).append(row)
    return [_joined(found) for found in kinds.values()]


def _joined(rows: Sequence[QuotaRow]) -> Amounts:
    first = Amounts.of(rows[0])
    flavors = {row.flavor for row in rows if row.flavor}
    note = ngettext("%(n)d flavor", "%(n)d flavors", len(flavors)) % {"n": len(flavors)} if flavors else ""
    each = [Amounts.of(row) for row in rows]
    return replace(
        first,
        label=unit_text(rows[0]),
        note=next(iter(flavors)) if len(flavors) == 1 else note,
        reserved=sum((one.reserved for one in each), ZERO),
        nominal=_sum([one.nominal for one in each]),
        borrowed=_sum([one.borrowed for one in each]),
        lent=_sum([one.lent for one in each]),
        free=_all_or_none([one.free for one in each]),
        over=sum((one.over for one in each), ZERO),
        ceiling=_all_or_none([one.ceiling for one in each]),
        pending=sum((one.pending for one in each), ZERO),
        waiting=sum(one.waiting for one in each),
    )


def _sum(values: Iterable[Decimal | None]) -> Decimal | None:
    """What is set; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known, ZERO) if known else None


def _all_or_none(values: Sequence[Decimal | None]) -> Decimal | None:
    """None is "no limit" here: one of it is enough."""
    return None if any(value is None for value in values) else _sum(values)


@dataclass(frozen=True, slots=True)
class Line:
    """One node of the tree. `key` names it in the address; `opens` None: nothing to open. `path` is said where the
    tree around it is not shown. `rest`: a line that only completes a sum and leads nowhere."""

    depth: int
    node: QueueNode
    amounts: list[Amounts]
    key: str = ""
    opened: bool | None = None
    path: str = ""
    rest: str = ""


def node_key(node: QueueNode) -> str:
    return f"{node.cluster.slug}/{node.kind}/{node.name}"


@dataclass(frozen=True, slots=True)
class View:
    """How nodes are shown: which of their rows, in lines per flavor or per kind of unit, which of them opened. Only
    what is shown is asked of a node, so that a page does not pay for the rest of the tree."""

    rows_of: Callable[[QueueNode], Sequence[QuotaRow]]
    flavors: bool
    opened: Collection[str] = ()

    def amounts(self, node: QueueNode) -> list[Amounts]:
        return _amounts(self.rows_of(node), flavors=self.flavors)


def default_open(roots: Sequence[QueueNode], view: View, *, most: int = LINES_OPEN) -> set[str]:
    """Whole levels, as far as their lines fit on a first screen."""

    def lines_of(nodes: Sequence[QueueNode]) -> int:
        return sum(max(1, len(view.amounts(node))) for node in nodes)

    found: set[str] = set()
    lines, level = lines_of(roots), list(roots)
    while below := [child for node in level for child in node.children]:
        if lines + len(below) > most or (lines := lines + lines_of(below)) > most:
            break
        found.update(node_key(node) for node in level if node.children)
        level = below
    return found


def tree_lines(nodes: Iterable[QueueNode], view: View, *, depth: int) -> Iterator[Line]:
    """The nodes and, below opened ones, what adds up to them."""
    for node in nodes:
        key = node_key(node)
        is_open = (key in view.opened) if node.children else None
        yield Line(depth, node, view.amounts(node), key, is_open)
        if is_open:
            yield from below(node, view, depth=depth + 1)


def below(node: QueueNode, view: View, *, depth: int) -> Iterator[Line]:
    """What an opened node shows."""
    yield from tree_lines(node.children, view, depth=depth)
    if node.kind == "Cohort":
        own, others = rest_of(node, view)
        for rows, said in ((own, _("the cohort's own quota")), (others, _("queues of other teams"))):
            if rows:
                yield Line(depth, node, _amounts(rows, flavors=view.flavors), rest=said)


def rest_of(node: QueueNode, view: View) -> tuple[list[QuotaRow], list[QuotaRow]]:
    """(the cohort's own quota, what the queues that are not shown have): with the children they add up to its row."""
    inside: dict[tuple[str, str], list[QuotaRow]] = {}
    for child in node.children:
        for row in child.rows:
            inside.setdefault((row.flavor, row.resource), []).append(row)
    own, others = [], []
    for row in view.rows_of(node):
        children = inside.get((row.flavor, row.resource), [])
        mine = row.own_nominal or ZERO
        plain = replace(row, borrowed=None, lent=None, available=None, ceiling=None, notes=())
        if mine:
            own.append(
                replace(plain, nominal=mine, reserved=ZERO, admitted=ZERO, pending=ZERO, waiting=0, over=ZERO)
            )
        left = replace(
            plain,
            nominal=(row.nominal or ZERO) - mine - sum((r.nominal or ZERO for r in children), ZERO),
            reserved=row.reserved - sum((r.reserved for r in children), ZERO),
            pending=row.pending - sum((r.pending for r in children), ZERO),
            waiting=row.waiting - sum(r.waiting for r in children),
            over=ZERO,
        )
        if left.nominal or left.reserved or left.pending or left.waiting:
            others.append(left)
    return own, others


def _amounts(rows: Sequence[QuotaRow], *, flavors: bool) -> list[Amounts]:
    return [Amounts.of(row) for row in rows] if flavors else by_unit(rows)


def list_lines(found: Iterable[QueueNode], *, flavors: bool) -> Iterator[Line]:
    """What a filter leaves, each with the way to it instead of a place in the tree."""
    for node in found:
        yield Line(0, node, _amounts(node.rows, flavors=flavors), path=node.parent)


def totals(nodes: Iterable[QueueNode]) -> list[Amounts]:
    """Per kind of unit what the queues that match hold, have and wait for: of queues without children, so that no
    parent is added to its children."""
    return by_unit(row for node in nodes if node.kind != "Cohort" and not node.children for row in node.rows)


def tree_totals(roots: Sequence[QueueNode], view: View) -> list[Amounts]:
    """What the roots of a whole tree add up to. A Volcano root says nothing of its own: there the queues do."""
    if any(node.system == "volcano" for node in roots):
        return totals(replace(node, rows=tuple(view.rows_of(node))) for _depth, node in flat(roots))
    sums = by_unit(row for node in roots for row in view.rows_of(node))
    return [replace(one, borrowed=None, lent=None, free=None, ceiling=None) for one in sums]


# ---- HTML -------------------------------------------------------------------------------------------------------


class Writer:
    """Writes lines. `query`: the page's own query without `open` and `page`; `opened`: what stands in `open`;
    `many`: more than one cluster is shown."""

    def __init__(self, *, query: str, opened: Sequence[str], many: bool) -> None:
        self.query, self.opened, self.many = query, list(opened), many

    def rows(self, lines: Iterable[Line]) -> SafeString:
        return mark_safe("".join(self._line(line) for line in lines))  # noqa: S308 -- escaped where it is written

    def _line(self, line: Line) -> str:
        depth = f' class="d{min(line.depth, MOST_DEPTH)}{" g" if line.opened is not None else ""}"'
        first = f'<tr{depth}><th scope="row">{self._head(line)}</th>'
        if not line.amounts:
            said = escape(_("no quota of its own"))
            return f'{first}<td colspan="9">{said}</td></tr>'
        more = f"<tr{depth}><td></td>"
        return "".join(
            f"{more if i else first}{self._cells(line, amounts)}</tr>"
            for i, amounts in enumerate(line.amounts)
        )

    def _head(self, line: Line) -> str:
        node = line.node
        if line.rest:
            return f"<i>{escape(line.rest)}</i>"
        url = queue_url(node.cluster.slug, node.kind, node.name)
        name = f'<a href="{escape(url)}">{escape(node.name)}</a>'
        if line.opened is not None:
            name = f"{self._opener(line)}{name}"
        notes = []
        if line.path:
            notes.append(_("in %(parent)s") % {"parent": line.path})
        if node.kind == "Cohort":
            notes.append(_("cohort"))
        if self.many and line.depth == 0:
            notes.append(node.cluster.name)
        said = f" <small>{escape(' · '.join(notes))}</small>" if notes else ""
        return f"{name}{said}{_state(node)}"

    def _opener(self, line: Line) -> str:
        opened = [key for key in self.opened if key != line.key]
        if not line.opened:
            opened.append(line.key)
        kept = "&".join([*filter(None, [self.query]), *(f"open={key}" for key in opened or ["-"])])
        label = _("Close %(name)s") if line.opened else _("Open %(name)s")
        return (
            f'<a class="x" href="?{escape(kept)}" aria-expanded="{"true" if line.opened else "false"}"'
            f' aria-label="{escape(label % {"name": line.node.name})}" data-key="{escape(line.key)}"></a>'
        )

    def _cells(self, line: Line, one: Amounts) -> str:
        note = f" <small>{escape(one.note)}</small>" if one.note and one.note != one.label else ""
        kueue = line.node.system == "kueue"
        cells = [
            f"{escape(one.label)}{note}",
            bar(one.reserved, one.nominal, one.ceiling) if not line.rest else "",
            self._link(line, one, "reserved") or amount(one, one.reserved),
            amount(one, one.nominal),
            amount(one, one.borrowed) if kueue else NOT_APPLICABLE,
            amount(one, one.lent) if kueue else NOT_APPLICABLE,
            _free(line, one),
            amount(one, one.ceiling) if one.ceiling is not None else _no_limit(line),
            self._waiting(line, one),
        ]
        return "".join(f"<td>{cell}</td>" for cell in cells)

    @staticmethod
    def _link(line: Line, one: Amounts, name: str) -> str:
        """A queue's held amount leads to the work that holds it; what a cohort holds is opened below it."""
        node = line.node
        if line.rest or node.kind == "Cohort" or node.children or not one.reserved:
            return ""
        url = queue_url(node.cluster.slug, node.kind, node.name)
        return f'<a href="{escape(url)}#held">{amount(one, one.reserved)}</a>'

    @staticmethod
    def _waiting(line: Line, one: Amounts) -> str:
        shown, node = amount(one, one.pending), line.node
        if not one.waiting or line.rest:
            return shown
        if node.kind == "Cohort" or node.children:
            url = address(
                "queues", cluster=node.cluster.slug, under=f"{node.kind}/{node.name}", state="waiting"
            )
        else:
            url = queue_url(node.cluster.slug, node.kind, node.name) + "#waiting"
        return f'<a href="{escape(url)}">{shown}</a>'


def _free(line: Line, one: Amounts) -> str:
    if one.over:
        said = escape(_("over by %(n)s") % {"n": _plain(one, one.over)})
        return f'<span class="state-bad">{said}</span>'
    if one.free is None:
        return NOT_APPLICABLE if line.rest or line.node.system == "kueue" else _no_limit(line)
    return amount(one, one.free)


def _no_limit(line: Line) -> str:
    return NOT_APPLICABLE if line.rest else escape(_("no limit"))


def _state(node: QueueNode) -> str:
    """What is wrong with a node, in words."""
    # Words stand outside of f-strings: inside, they are not found by who collects them for translation.
    stopped, circle, inactive = _("stopped"), _("in a circle of cohorts"), _("inactive")
    if node.stopped:
        return f' <b class="state-warn">{escape(stopped)}</b>'
    if node.in_cycle:
        return f' <b class="state-bad">{escape(circle)}</b>'
    if not node.active:
        return f' <b class="state-bad" title="{escape(node.message)}">{escape(inactive)}</b>'
    return ""


def _plain(one: Amounts, value: Decimal) -> str:
    return amount_text(one.resource, value) if is_bytes(one.resource) else number_text(value)


def amount(one: Amounts, value: Decimal | None) -> str:
    if value is None:
        return NOT_APPLICABLE
    return escape(_plain(one, value)) if value else "<i>0</i>"


def bar(used: Decimal, nominal: Decimal | None, ceiling: Decimal | None) -> str:
    """As `quota_bar`, without words of its own: the numbers stand beside it in every line."""
    scale = max([n for n in (used, nominal, ceiling) if n is not None and n.is_finite()] + [Decimal(1)])
    line = used if nominal is None else nominal
    within = min(used, line)
    shapes = []
    if within:
        shapes.append(f'<rect width="{_percent(within, scale)}" height="9"/>')
    if used > within:
        left = _percent(within, scale)
        shapes.append(f'<rect class="b" x="{left}" width="{_percent(used - within, scale)}" height="9"/>')
    if nominal is not None:
        shapes.append(f'<rect class="m" x="{_percent(nominal, scale)}" width="2" height="9"/>')
    return f'<svg class="q" aria-hidden="true">{"".join(shapes)}</svg>'


def _percent(part: Decimal, whole: Decimal) -> str:
    return f"{round(part * 100 / whole)}%"
