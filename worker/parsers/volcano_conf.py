"""The configuration of Volcano's scheduler → a row of observations.ClusterObject. Input: its ConfigMap; pure.

VolcanoScheduler  spec  {key, plugin, plugins, hierarchy, actions, tiers}
                  key        the key of the ConfigMap that was read
                  plugin     which plugin decides what queues deserve: "proportion" or "capacity"; "" where the
                             configuration lists none of them, or both
                  plugins    those of the two that are listed, in the order of tiers, each once
                  hierarchy  whether the plugin reads the queues' parents: only capacity with enableHierarchy
                  actions    [name] in the order in which the scheduler takes them
                  tiers      [[{name, arguments: {key: value}, switches: {"enableHierarchy": true, …}}]] as configured

Invariants, as the scheduler reads it: of a plugin that is listed twice, the first listing's switches count; a file that
it would refuse (no YAML, no actions, a tier without plugins' names) is refused here, and what was read before stays
in force there as here; no more than MOST_VALUES values are taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from .base import Kind, Meta, ParseError, Row, Struct
from .kueue import OBJECT_COLUMNS, object_row

QUEUE_PLUGINS = ("proportion", "capacity")
KEYS = ("volcano-scheduler.conf", "volcano-scheduler-ci.conf")
"""The key of an installation by chart or by manifest, and that of the chart's set-up for tests."""
HIERARCHY = "enableHierarchy"
MOST_VALUES = 5000
# The library raises these, too, for a tag whose text does not fit it.
_NOT_YAML = (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError)


class ConfigMap(Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] | None = None


class _Budget:
    """Counts values: a few lines of YAML can stand for billions of them."""

    def __init__(self) -> None:
        self.left = MOST_VALUES

    def plain(self, value: Any) -> Any:
        """The value with texts for keys and for what JSON does not know."""
        self.left -= 1
        if self.left < 0:
            raise ParseError(f"more than {MOST_VALUES} values")
        if isinstance(value, Mapping):
            return {str(key): self.plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [self.plain(item) for item in value]
        if value is None or isinstance(value, (bool, str)):
            return value
        return str(value)


def scheduler_row(found: ConfigMap) -> Row:
    """Values of OBJECT_COLUMNS. Raises ParseError."""
    key, text = _chosen(found.data or {})
    return object_row(found.metadata, "VolcanoScheduler", {"key": key, **_read(text, key)}, {})


def _chosen(data: Mapping[str, str]) -> tuple[str, str]:
    """(key, text): a key that Volcano's own installations use, else the only one there is."""
    for key in KEYS:
        if key in data:
            return key, data[key]
    if len(data) != 1:
        said = ", ".join(sorted(data)) or "none"
        raise ParseError(f"data: no {KEYS[0]}, and not just one key: {said}")
    return next(iter(data.items()))


def _read(text: str, where: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text)
        taken = _Budget().plain(document)
    except _NOT_YAML as error:
        raise ParseError(f"{where}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(taken, dict) or not isinstance(taken.get("tiers") or [], list):
        raise ParseError(f"{where}: no configuration of a scheduler with a list of tiers")
    tiers = [_tier(tier, f"{where}: tiers[{index}]") for index, tier in enumerate(taken.get("tiers") or ())]
    listed = [option for tier in tiers for option in tier]
    plugins = list(dict.fromkeys(option["name"] for option in listed if option["name"] in QUEUE_PLUGINS))
    plugin = plugins[0] if len(plugins) == 1 else ""
    first = next((option for option in listed if option["name"] == plugin), None)
    return {
        "plugin": plugin,
        "plugins": plugins,
        "hierarchy": plugin == "capacity" and first is not None and first["switches"].get(HIERARCHY) is True,
        "actions": _actions(taken.get("actions"), where),
        "tiers": tiers,
    }


def _actions(said: Any, where: str) -> list[str]:
    names = [name.strip() for name in said.split(",")] if isinstance(said, str) else []
    if not names or not all(names):
        raise ParseError(f'{where}: actions: a list such as "enqueue, allocate, backfill" is wanted')
    return names


def _tier(tier: Any, where: str) -> list[dict[str, Any]]:
    options = (tier.get("plugins") or []) if isinstance(tier, dict) else None
    if not isinstance(options, list):
        raise ParseError(f"{where}: no list of plugins")
    return [_option(option, f"{where}.plugins[{index}]") for index, option in enumerate(options)]


def _option(option: Any, where: str) -> dict[str, Any]:
    if not isinstance(option, dict) or not isinstance(option.get("name"), str):
        raise ParseError(f"{where}: no name")
    arguments = option.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise ParseError(f"{where}: arguments: no mapping")
    switches = {key: value for key, value in option.items() if isinstance(value, bool)}
    return {"name": option["name"], "arguments": arguments, "switches": switches}


VOLCANO_SCHEDULER = Kind(
    name="VolcanoScheduler",
    source="volcano",
    model="ClusterObject",
    group="",
    versions=("v1",),
    plural="configmaps",
    namespaced=True,
    struct=ConfigMap,
    columns=OBJECT_COLUMNS,
    row=scheduler_row,
    beside=True,
)
"""Read by its name (worker/collectors/volcano_conf.py), so that it is none of the kinds that are listed."""
