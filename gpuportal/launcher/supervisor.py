"""Keeps the children running: one that dies is started again, a little later each time.

Input: Specs; output: running processes and one line for each problem. Invariants: `tick` never blocks; a child
that ran for a minute starts from the shortest wait again; the group of a dead child is ended before its successor
starts; nothing is started again once stopping has begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from .children import Child, Spec, stop_all
from .errors import LaunchError, last_lines

FIRST_WAIT, LONGEST_WAIT, SETTLED = 0.5, 30.0, 60.0


@dataclass
class _Post:
    """The place of one child: who holds it, and when it may be filled again."""

    spec: Spec
    child: Child | None
    wait: float = FIRST_WAIT
    due: float = 0.0


class Supervisor:
    """Starts, watches and stops children."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.posts: dict[str, _Post] = {}

    def start(self, spec: Spec) -> Child:
        child = Child(spec)
        self.posts[spec.name] = _Post(spec, child)
        return child

    def check(self) -> None:
        """While starting, a child that dies is a reason to give up."""
        for post in self.posts.values():
            if post.child is not None and not post.child.alive:
                raise LaunchError(f"{post.spec.name} {post.child.ended_how()}", log=post.spec.log)

    def tick(self) -> None:
        """Start again whatever has died and is due."""
        now = time.monotonic()
        for post in self.posts.values():
            if post.child is not None and not post.child.alive:
                self._bury(post, now)
            if post.child is None and now >= post.due:
                self._revive(post, now)

    def restart(self, name: str, why: str) -> None:
        """End a child that runs but does not work; `tick` starts it again."""
        post = self.posts[name]
        if post.child is not None and post.child.alive:
            self.say(f"[{name}] {why}: starting it again")
            stop_all([post.child])

    def youngest(self, *names: str) -> float:
        """For how many seconds all of these have been running; 0 when one of them is not."""
        ages = [post.child.age if post.child else 0.0 for name, post in self.posts.items() if name in names]
        return min(ages, default=0.0)

    def stop(self) -> None:
        stop_all([post.child for post in self.posts.values() if post.child is not None])
        self.posts.clear()

    def _bury(self, post: _Post, now: float) -> None:
        child = post.child
        if child is None:
            return
        child.kill_group()
        post.wait = FIRST_WAIT if child.age > SETTLED else min(post.wait * 2, LONGEST_WAIT)
        post.due = now + post.wait
        post.child = None
        self.say(f"[{post.spec.name}] {child.ended_how()}; starting it again in {post.wait:.0f} s")
        for line in last_lines(post.spec.log, 3):
            self.say(f"[{post.spec.name}] | {line}")

    def _revive(self, post: _Post, now: float) -> None:
        try:
            post.child = Child(post.spec)
        except OSError as error:
            post.wait = min(post.wait * 2, LONGEST_WAIT)
            post.due = now + post.wait
            self.say(f"[{post.spec.name}] cannot be started: {error}")
