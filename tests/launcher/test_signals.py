"""A signal to stop is never lost, whatever runs when it comes. Each moment is tried in a process of its own, which ends
with 130 when it was interrupted and with 1 when it was not within seconds."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

import pytest

from gpuportal.launcher.errors import Interrupted
from gpuportal.launcher.signals import Signals
from tests.launcher.checkout import Checkout, happens

INTERRUPTED, LOST, SECONDS = 130, 1, 3.0


def spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


class Finalised:
    def __del__(self) -> None:
        spin(0.002)


class InACycle:
    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        spin(0.002)


def in_finalisers() -> None:
    Finalised()
    spin(0.002)


def in_the_garbage_collector() -> None:
    InACycle()
    gc.collect()
    spin(0.002)


def in_weakref_callbacks() -> None:
    thing: set[int] = set()
    reference = weakref.ref(thing, lambda _: spin(0.002))
    del thing
    assert reference() is None
    spin(0.002)


def swallowed() -> None:
    with suppress(BaseException):
        spin(0.002)
    spin(0.002)


def while_it_waits() -> None:
    subprocess.run(["sleep", "0.01"], check=False)


def nothing_special() -> None:
    spin(0.001)


def outcome(work: Callable[[], None], after: float, number: int) -> int:
    """The exit code of a process that does this again and again, and gets the signal at that moment."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        code = LOST
        try:
            gc.freeze()  # what the tests have made would keep the collector busy
            sys.unraisablehook = sys.__unraisablehook__  # pytest's own would keep what was dropped
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - Python tells there what it drops
            signals = Signals()
            os.write(tell, b".")
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                work()
        except Interrupted:
            signals.stopping()
            code = INTERRUPTED
        finally:
            os._exit(code)
    os.read(ready, 1)
    time.sleep(after)
    os.kill(child, number)
    _, status = os.waitpid(child, 0)
    os.close(ready)
    os.close(tell)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize(
    "work",
    [
        in_finalisers,
        in_the_garbage_collector,
        in_weakref_callbacks,
        swallowed,
        while_it_waits,
        nothing_special,
    ],
)
def test_a_signal_arrives_at_any_moment(work: Callable[[], None]) -> None:
    moments = [0.0007 * step for step in range(12)]
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP] * 4
    found = [outcome(work, after, number) for after, number in zip(moments, numbers, strict=True)]
    assert found == [INTERRUPTED] * len(moments)


def test_what_stops_is_not_disturbed() -> None:
    """Neither by further signals nor by one that was dropped and would be raised again."""

    def work() -> None:
        signals = Signals()
        for number in (signal.SIGTERM, signal.SIGHUP):
            try:
                Finalised()
                os.kill(os.getpid(), number)
            except Interrupted:
                signals.stopping()
                os.kill(os.getpid(), signal.SIGINT)
                spin(0.2)
                raise

    assert outcome(work, 1.0, signal.SIGTERM) == INTERRUPTED


# The whole start: reading settings, servers, database, demo, web server, first collection.
MOMENTS = (0.4, 0.8, 1.5, 2.5, 4.0, 6.0, 9.0)


@pytest.mark.parametrize("after", MOMENTS)
def test_a_start_can_be_stopped_at_any_moment(checkout: Checkout, after: float) -> None:
    process = subprocess.Popen(
        checkout.command("up", "--port", str(checkout.port), "--demo-days", "1"),
        cwd=checkout.root,
        env=checkout.env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    lock = checkout.root / "var" / "up.lock"
    assert happens(lambda: lock.exists() and f"process {process.pid}" in lock.read_text(), 20)
    time.sleep(after)
    process.terminate()
    assert process.wait(40) in (130, 0)  # 0: it was ready
    assert checkout.nothing_runs(2), checkout.processes()
