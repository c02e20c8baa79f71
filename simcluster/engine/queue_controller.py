"""Volcano's queue controller: it opens and closes queues as Commands ask for, and closes children with their parent.

Input: Commands, and PodGroups that went; output: status.state and annotations of queues, events on them.
Invariants: a Command is deleted before anything is done; a queue is Closed only when no PodGroup is left in it, finished
ones included; `root` is never closed; a queue below a closed one opens only after it.
"""

from __future__ import annotations

from collections.abc import Callable

from simcluster.kinds import KINDS

from .model import Obj
from .world import World

OPEN, CLOSE = "OpenQueue", "CloseQueue"
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
_SHUT = ("Closed", "Closing")
_QUEUE, _COMMAND = KINDS["VolcanoQueue"], KINDS["Command"]
_COMPONENT = "vc-controller-manager"
_COMMAND_SECONDS = 1
_WAITS = (1, 2, 4, 8, 16, 32, 64)
"""Seconds between attempts at what fails; after the last the controller gives up and says so."""


class QueueController:
    """`queues` by name are the live objects; `left` says whether a queue still has PodGroups."""

    def __init__(self, world: World, queues: dict[str, Obj], left: Callable[[str], bool]) -> None:
        self.world, self.queues, self._left = world, queues, left

    def commanded(self, command: Obj) -> None:
        """A Command was created: it is taken a moment later."""
        metadata, target = command["metadata"], command.get("target")
        if (
            target
            and target["kind"] == _QUEUE.api_kind
            and target["apiVersion"].startswith(f"{_QUEUE.group}/")
        ):
            key = f"{metadata['namespace']}/{metadata['name']}"
            self.world.after(_COMMAND_SECONDS, self._take, key, command.get("action", ""), target["name"])

    def _take(self, key: str, action: str, name: str) -> None:
        self.world.remove(_COMMAND, key)
        self._act(action, name)

    def _act(self, action: str, name: str, attempt: int = 0) -> None:
        if name not in self.queues:
            return
        if action == OPEN:
            self._open(name, attempt)
        elif action == CLOSE:
            self._close(name)

    def settle(self, name: str) -> None:
        """A PodGroup of the queue went: the last one lets it be Closed."""
        if self._state(name) == "Closing" and not self._left(name):
            self._set_state(name, "Closed")

    def moved(self, name: str) -> None:
        """The queue may have got another parent: it shares the parent's state."""
        above = self.queues[name]["spec"].get("parent", "")
        if name == "root" or above not in self.queues:
            return
        shut, shut_above = self._state(name) in _SHUT, self._state(above) in _SHUT
        if shut_above and not shut:
            self._annotate(name, "true")
            self._close(name)
        elif shut and not shut_above and self._closed_by_parent(name):
            self._open(name, 0)

    # ---- states -------------------------------------------------------------------------------------------
    def _close(self, name: str) -> None:
        if name == "root" or self._state(name) in _SHUT:
            self.settle(name)
            return
        below = [child for child in self._children(name) if self._state(child) not in _SHUT]
        for child in below:
            self._annotate(child, "true")
        self._say(name, CLOSE, "Close queue succeed")
        self._set_state(name, "Closing" if self._left(name) else "Closed")
        for child in below:
            self._close(child)

    def _open(self, name: str, attempt: int) -> None:
        if self._state(name) == "Open":
            return
        above = self.queues[name]["spec"].get("parent", "")
        if above != "root" and self._state(above) in _SHUT:
            self._cannot_open(name, above, attempt)
            return
        self._say(name, OPEN, "Open queue succeed")
        self._annotate(name, "false")
        self._set_state(name, "Open")
        for child in self._children(name):
            if self._closed_by_parent(child):
                self._open(child, 0)

    def _cannot_open(self, name: str, above: str, attempt: int) -> None:
        if attempt < len(_WAITS):
            self.world.after(_WAITS[attempt], self._act, OPEN, name, attempt + 1)
            return
        why = (
            f"Failed to open queue {name} because its parent queue {above} is closing or closed. "
            "Open the parent queue first."
        )
        self._say(name, OPEN, f"{OPEN} queue failed for {why}", warning=True)

    def _state(self, name: str) -> str:
        return str(self.queues[name].get("status", {}).get("state", "")) if name in self.queues else ""

    def _set_state(self, name: str, state: str) -> None:
        queue = self.queues[name]
        queue.setdefault("status", {})["state"] = state
        self.world.put(_QUEUE, queue)

    def _children(self, name: str) -> list[str]:
        return [one for one, obj in self.queues.items() if obj["spec"].get("parent") == name]

    def _closed_by_parent(self, name: str) -> bool:
        annotations = self.queues[name]["metadata"].get("annotations") or {}
        return annotations.get(CLOSED_BY_PARENT) == "true"

    def _annotate(self, name: str, value: str) -> None:
        """Written with the state that follows."""
        metadata = self.queues[name]["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), CLOSED_BY_PARENT: value}

    def _say(self, name: str, action: str, words: str, *, warning: bool = False) -> None:
        self.world.event(self.queues[name], action, words, _COMPONENT, warning=warning)
