"""Listed devices as the registry understands them. Input: pools, taint rules, nodes; output: DraDevices.

Invariants: a driver that the registry does not know gives no devices but is named; types that are no accelerators
(channels, daemons) give none; effect None of a taint keeps nothing away, nor does a rule that cannot be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from apps.core.gpu import split_product
from apps.core.label_selector import node_expression_holds
from apps.core.taints import KEEPS_AWAY
from apps.fleet.dra import cel
from apps.fleet.dra.model import ClassObject, DeviceKey, DraDevice, Spec
from apps.fleet.dra.names import Names
from apps.fleet.dra.pools import PoolState
from apps.fleet.registry import first_label, registry
from apps.fleet.vendors import Driver

Labels = Mapping[str, str]
NOWHERE, SEVERAL = None, ""
_NOT_IN_MODELS = re.compile(r"[^A-Za-z0-9_. -]")


class Reader:
    """Reads the devices of one cluster."""

    def __init__(
        self,
        *,
        nodes: Mapping[str, Labels],
        rules: Iterable[Spec],
        classes: Sequence[ClassObject],
        names: Names,
    ) -> None:
        self._nodes, self._names = nodes, names
        self._classes = {found.name: found for found in classes}
        self._rules = [rule for rule in rules if rule["selects"] and rule["taint"]["effect"] in KEEPS_AWAY]
        self.unregistered: Counter[str] = Counter()

    def devices(self, state: PoolState) -> Iterator[DraDevice]:
        """The accelerators of a pool, each once; those of nodes that are not there are not."""
        found = registry().drivers.get(state.key.driver)
        if found is None:
            self.unregistered[state.key.driver] += sum(len(spec["devices"]) for spec in state.slices)
            return
        seen: set[str] = set()
        for spec in state.slices:
            usual = NOWHERE if spec["per_device_nodes"] else self._node(spec)
            for raw in spec["devices"]:
                node = self._node(raw) if spec["per_device_nodes"] else usual
                if node is NOWHERE or raw["name"] in seen:
                    continue
                seen.add(raw["name"])
                device = self._device(state, found[0], found[1], raw, node)
                if device is not None:
                    yield device

    # ---- where ------------------------------------------------------------------------------------------------
    def _node(self, said: Spec) -> str | None:
        if said["node"]:
            return said["node"] if said["node"] in self._nodes else NOWHERE
        terms = said["node_selector"]
        if terms is None and not said["all_nodes"]:
            return NOWHERE
        reached = (
            name for name, labels in self._nodes.items() if terms is None or _selected(terms, name, labels)
        )
        first = next(reached, NOWHERE)
        return first if next(reached, NOWHERE) is NOWHERE else SEVERAL

    # ---- what -------------------------------------------------------------------------------------------------
    def _device(
        self, state: PoolState, vendor: str, driver: Driver, raw: Spec, node: str
    ) -> DraDevice | None:
        attributes, meaning = raw["attributes"], driver.attributes
        type_ = _text(attributes, meaning.type)
        kind = driver.kind(type_)
        if not kind:
            return None
        profile = _text(attributes, meaning.profile) if kind == "partition" else ""
        telling = {
            name: attributes[name]
            for name in (*meaning.type, *meaning.model, *meaning.profile)
            if name in attributes
        }
        memory = _memory(raw["capacity"], meaning.memory)
        return DraDevice(
            key=DeviceKey(*state.key, raw["name"]),
            node=node,
            vendor=vendor,
            model=self._model(_text(attributes, meaning.model), vendor, node),
            kind=kind,
            type=type_,
            profile=profile,
            resource=self._names.of(state.key.driver, type_ or kind, profile, telling, meaning.profile),
            uuid=_text(attributes, meaning.uuid),
            parent=_text(attributes, meaning.parent),
            pci=_text(attributes, meaning.pci),
            numa=_text(attributes, meaning.numa),
            pcie=_text(attributes, meaning.pcie),
            memory_bytes=memory,
            tainted=self._taints(state, raw),
            multiple=raw["multiple"],
            capacity={name: Decimal(value) for name, value in raw["capacity"].items()},
            consumes={
                (entry["set"], counter): Decimal(amount)
                for entry in raw["consumes"]
                for counter, amount in entry["counters"].items()
            },
            incomplete=state.incomplete,
            down=state.down,
        )

    def _model(self, said: str, vendor: str, node: str) -> str:
        """As node labels write it, so that cards of plugins and of drivers are in one pool."""
        if said:
            return _NOT_IN_MODELS.sub("", said).strip().replace(" ", "-")
        known = registry().vendors[vendor]
        return (
            split_product(first_label(self._nodes.get(node, {}), known.labels.model)).model
            or known.default_model
        )

    def _taints(self, state: PoolState, raw: Spec) -> str:
        own = [taint for taint in raw["taints"] if taint["effect"] in KEEPS_AWAY]
        ruled = [rule["taint"] for rule in self._rules if self._rule_selects(rule, state, raw)]
        return ", ".join(dict.fromkeys(_taint_text(taint) for taint in (*own, *ruled)))

    def _rule_selects(self, rule: Spec, state: PoolState, raw: Spec) -> bool:
        driver, pool = state.key
        wanted = ((rule["driver"], driver), (rule["pool"], pool), (rule["device"], raw["name"]))
        if any(asked and asked != found for asked, found in wanted):
            return False
        selectors = list(rule["selectors"])
        if rule["device_class"]:
            found = self._classes.get(rule["device_class"])
            if found is None:
                return False
            selectors += found.spec["selectors"]
        return cel.matches(selectors, driver, raw["attributes"]) is True


def _text(attributes: Mapping[str, Any], names: Iterable[str]) -> str:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, list):
            return ",".join(str(part) for part in value)
        if value is not None and value != "":
            return str(value)
    return ""


def _memory(capacity: Mapping[str, str], names: Iterable[str]) -> int | None:
    """Bytes; 0 is what a driver says that could not read it."""
    return next((int(Decimal(capacity[name])) for name in names if name in capacity), 0) or None


def _taint_text(taint: Spec) -> str:
    value = f"={taint['value']}" if taint["value"] else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _selected(terms: Sequence[Spec], name: str, labels: Labels) -> bool:
    """Kubernetes' node selector: one term must hold with all it says; a term that says nothing holds nowhere."""
    for term in terms:
        on_labels, on_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
        if not on_labels and not on_fields:
            continue
        fields = {"metadata.name": name}
        if all(node_expression_holds(r, labels) for r in on_labels) and all(
            node_expression_holds(r, fields) for r in on_fields
        ):
            return True
    return False
