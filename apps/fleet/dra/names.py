"""What units of DRA devices are called. Input: DeviceClasses; output: resource names.

A class may give its devices the name of an extended resource; of classes that claim the same name the newest has
it, of equally old ones the first by name. A device without such a name is "<driver>/<type>", a partition
"<driver>/<type>-<profile>": units of different profiles never share a name, so that a class names a partition only
when it is for that profile.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from apps.fleet.dra import cel
from apps.fleet.dra.model import ClassObject
from apps.fleet.registry import is_device

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def served_resources(classes: Iterable[ClassObject]) -> dict[str, ClassObject]:
    """Extended resource → the class that serves it."""
    by_age = sorted(classes, key=lambda found: found.name)
    by_age.sort(key=lambda found: found.created_at or _LONG_AGO, reverse=True)
    served: dict[str, ClassObject] = {}
    for found in by_age:
        if name := found.spec.get("extended_resource"):
            served.setdefault(name, found)
    return served


class Names:
    """Resource names of devices, each kind of device worked out once."""

    def __init__(self, served: dict[str, ClassObject]) -> None:
        self._served = served
        self._known: dict[tuple[Any, ...], str] = {}

    def of(
        self, driver: str, type_: str, profile: str, telling: dict[str, Any], profile_names: tuple[str, ...]
    ) -> str:
        """`telling`: the attributes that say what kind of device it is (type, model, profile). A class that asks for
        any other selects particular devices and names none."""
        key = (driver, type_, profile, *sorted(telling.items()))
        if key not in self._known:
            names = [
                name
                for name, found in self._served.items()
                if self._names(found, driver, telling, profile_names if profile else ())
            ]
            own = f"{driver}/{type_}-{profile}" if profile else f"{driver}/{type_}"
            self._known[key] = min(names, key=lambda name: (not is_device(name), name), default=own)
        return self._known[key]

    @staticmethod
    def _names(
        found: ClassObject, driver: str, telling: dict[str, Any], profile_names: tuple[str, ...]
    ) -> bool:
        selectors = found.spec.get("selectors") or ()
        if not selectors or cel.matches(selectors, driver, telling) is not True:
            return False
        if not profile_names:
            return True
        other = {name: value for name, value in telling.items() if name not in profile_names}
        return cel.matches(selectors, driver, other) is not True
