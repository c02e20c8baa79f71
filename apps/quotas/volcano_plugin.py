"""Which plugin decides what Volcano's queues deserve, and where that is known from. Input: the cluster's entry, its
queues and the scheduler's configuration as collected; output: a `QueuePlugin`, and sentences about it.

Invariants: the admin site's word comes before the configuration's, and that before any guess: a configuration that
lists no such plugin, or both, leaves it open, whatever queues look like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.quotas.reading import ClusterView, Item
from apps.quotas.volcano_shares import ROOT

_ALONE: dict[str, Promise] = {
    "proportion": gettext_lazy(
        "The proportion plugin is in force: what the queue deserves follows weights and moves with demand. It is no entitlement."
    ),
    "capacity": gettext_lazy("The capacity plugin is in force: what the queue deserves is as configured."),
    "": gettext_lazy("Which plugin decides what queues deserve is not known for this cluster."),
}


@dataclass(frozen=True, slots=True)
class QueuePlugin:
    """`name`: "proportion", "capacity" or "". `said_by`: "admin" (the cluster's entry in the admin site),
    "configuration" (of the scheduler), "hierarchy" (queues have parents, which only capacity reads) or "". `where`: the
    ConfigMap and its key. `listed`: which of the two the configuration lists. `hierarchy`: whether parents count, None
    where nothing says it."""

    name: str
    said_by: str = ""
    where: str = ""
    listed: tuple[str, ...] = ()
    hierarchy: bool | None = None

    @property
    def flat(self) -> bool:
        """No queue is limited by those above it."""
        return self.name == "proportion" or (self.name == "capacity" and self.hierarchy is False)


def plugin_of(view: ClusterView) -> QueuePlugin:
    """What is known of a cluster."""
    conf = next(iter(view.objects["VolcanoScheduler"].values()), None)
    if view.cluster.volcano_plugin:
        return QueuePlugin(view.cluster.volcano_plugin, "admin", hierarchy=_hierarchy(conf, view))
    if conf is not None:
        where = f"{conf.namespace}/{conf.name}, {conf.spec.get('key') or ''}".rstrip(", ")
        return QueuePlugin(
            str(conf.spec.get("plugin") or ""),
            "configuration",
            where,
            tuple(conf.spec.get("plugins") or ()),
            conf.spec.get("hierarchy"),
        )
    return (
        QueuePlugin("capacity", "hierarchy")
        if _have_parents(view.objects["VolcanoQueue"])
        else QueuePlugin("")
    )


def _hierarchy(conf: Item | None, view: ClusterView) -> bool | None:
    """What the configuration says of the plugin that the admin site names, where it lists that one."""
    same = conf is not None and conf.spec.get("plugin") == view.cluster.volcano_plugin
    return conf.spec.get("hierarchy") if conf is not None and same else None


def _have_parents(queues: Mapping[str, Item]) -> bool:
    parents = {str(item.spec.get("parent") or "") for item in queues.values()}
    return bool(parents & queues.keys() - {ROOT})


def plugin_text(plugin: QueuePlugin) -> str:
    """One or two sentences: what is in force, and where that is known from."""
    if plugin.said_by == "configuration" and not plugin.name:
        return _open_text(plugin)
    return f"{_ALONE.get(plugin.name, plugin.name)} {_source_text(plugin)}".rstrip()


def _open_text(plugin: QueuePlugin) -> str:
    if plugin.listed:
        text = _(
            "The scheduler's configuration (ConfigMap %(where)s) lists the plugins proportion and capacity, which exclude each other: what queues deserve is shown as configured."
        )
    else:
        text = _(
            "The scheduler's configuration (ConfigMap %(where)s) lists no plugin that decides what queues deserve: it is shown as configured."
        )
    return text % {"where": plugin.where}


def _source_text(plugin: QueuePlugin) -> str:
    if plugin.said_by == "admin":
        return _("This is set for the cluster in the admin site.")
    if plugin.said_by == "configuration":
        return _("Read from the scheduler's ConfigMap %(where)s.") % {"where": plugin.where}
    if plugin.said_by == "hierarchy":
        return _("Concluded from queues that have a parent, which only this plugin reads.")
    return _("The scheduler's configuration has not been read; the page of sources says why.")
