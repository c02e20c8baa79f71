"""`./portal up`: the whole portal under one supervisor.

Input: options and the environment; output: a portal that answers, and its address. Invariants: nothing is printed
as ready before the first round of pulls has ended and at least one brought data; whatever happens, everything that
was started is stopped, and the data stays.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import fingerprints, http, processes, redis_server, servers
from .children import Child, Spec
from .errors import Interrupted, LaunchError, last_lines
from .folders import Folders, folders_for
from .lock import installation_lock, remember_running
from .signals import Signals
from .steps import Steps
from .supervisor import Supervisor
from .target import Target

DEMO_PASSWORD = "demo"  # noqa: S105 - printed, and only ever used on made-up data
DEMO_USERS = (
    ("admin", "platform admin"),
    ("approver", "second platform admin"),
    ("lead", "team lead"),
    ("finance", "finance"),
    ("viewer", "viewer"),
)
OWN_USERS = ("admin", "finance", "viewer")
PREPARE_SECONDS, COLLECT_SECONDS, SERVE_SECONDS = 300.0, 150.0, 60.0
LOOK_SECONDS, TICK_SECONDS = 10.0, 0.25


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    target: Target | None
    port: int
    check: bool
    demo_days: int
    began: float


def up(root: Path, options: Options) -> int:
    """Run until interrupted (or, with `check`, until the start page shows data); the exit code."""
    folders = folders_for(root)
    portal = Portal(folders, options)
    signals = Signals()
    try:
        with installation_lock(folders.var, f"http://127.0.0.1:{options.port}/"):
            return _run(portal, signals)
    except Interrupted:
        return 0 if portal.ready else 130


def _run(portal: Portal, signals: Signals) -> int:
    try:
        try:
            portal.start()
            if portal.options.check:
                portal.show_ready()
                return 0
            portal.watch()
        finally:
            signals.stopping()
    except LaunchError as error:
        portal.explain(error)
        return 1
    finally:
        portal.stop()
    return 0


class Portal:
    """One run of `up`."""

    def __init__(self, folders: Folders, options: Options) -> None:
        self.folders = folders
        self.options = options
        self.url = f"http://127.0.0.1:{options.port}"
        self.steps = Steps(total=6)
        self.supervisor = Supervisor(self.steps.say)
        self.ready = False
        self.environment: dict[str, str] = {}
        self.sim_port = 0
        self.asked_at = 0.0
        self.passwords: dict[str, str] = {}
        self.static: Child | None = None

    # ------------------------------------------------------------------ start
    def start(self) -> None:
        require_free(self.options.port)
        rotate_logs(self.folders)
        plan = servers.plan(self.folders, "portal_demo" if self.demo else "portal")
        self.environment = plan.environment()
        schema = fingerprints.schema_fingerprint(self.folders.root)
        stamp = self.folders.data / f"{plan.database_name}.schema"
        known = plan.database is not None and fingerprints.matches(stamp, schema)
        self.steps.total = 5 if known else 6
        self._start_static()
        # With nothing to migrate or to compress, the slow starters need not wait for anything but the servers.
        early = known and self.static is None
        self._start_servers(plan, early=early)
        self._prepare(migrate=not known)
        if plan.database is not None:
            fingerprints.record(stamp, schema)
        self.steps.begin("starting the web server, worker and schedule")
        self._finish_static()
        if not early:
            self._start_web_and_worker()
        self.supervisor.start(processes.beat(self.folders, self.environment))
        self._wait("the web server", SERVE_SECONDS, self._serves, self.folders.log("web"))
        self.steps.begin("first collection")
        self._wait("the first collection", COLLECT_SECONDS, self._collected, self.folders.log("worker"))
        self.steps.end()
        self.ready = True
        if not self.options.check:
            self._greet()

    def _start_servers(self, plan: servers.Servers, *, early: bool) -> None:
        self.steps.begin("starting PostgreSQL, Redis" + (" and the demo cluster" if self.demo else ""))
        if self.demo:
            self._start_demo()
        plan.start(self.supervisor)
        plan.wait()
        remember_running(self.folders.var, self.environment)
        (self.folders.var / "database").write_text(plan.database_name)
        if early:
            self._start_web_and_worker()
        self._wait_demo()

    @property
    def demo(self) -> bool:
        return self.options.target is None

    @property
    def demo_state(self) -> Path:
        return self.folders.var / "demo"

    def _start_demo(self) -> None:
        self.demo_state.mkdir(exist_ok=True)
        remembered = self.demo_state / "port"
        self.sim_port = _same_port(remembered) or redis_server.free_port()
        remembered.write_text(str(self.sim_port))
        self.supervisor.start(
            processes.simcluster(self.folders, self.demo_state, self.sim_port, self.options.demo_days)
        )

    def _wait_demo(self) -> None:
        if self.demo:
            address = f"{self.sim_url}/_sim/ready"
            log = self.folders.log("simcluster")
            self._wait("the demo cluster", PREPARE_SECONDS, lambda: http.get_json(address)[0] == 200, log)

    @property
    def sim_url(self) -> str:
        return f"http://127.0.0.1:{self.sim_port}"

    def _start_static(self) -> None:
        """Collect static files beside everything else, unless they are the same as last time."""
        wanted = fingerprints.static_fingerprint(self.folders.root)
        if fingerprints.matches(self.folders.var / "staticfiles.made", wanted):
            return
        command = ("collectstatic", "--noinput", "--clear", "--verbosity", "0")
        self.static = Child(processes.manage(self.folders, "static", self.environment, *command))

    def _finish_static(self) -> None:
        if self.static is None:
            return
        if run_out(self.static, PREPARE_SECONDS):
            raise LaunchError("the static files could not be collected", log=self.static.spec.log)
        wanted = fingerprints.static_fingerprint(self.folders.root)
        fingerprints.record(self.folders.var / "staticfiles.made", wanted)

    def _prepare(self, *, migrate: bool) -> None:
        """Run `manage.py prepare` and show its steps as ours."""
        spec = processes.manage(self.folders, "prepare", self.environment, *self._prepare_arguments(migrate))
        follow_steps(spec, self.steps, self.supervisor)
        self.asked_at = time.time()

    def _prepare_arguments(self, migrate: bool) -> list[str]:
        arguments = ["prepare", *(["--migrate"] if migrate else [])]
        target = self.options.target
        if target is None:
            return [*arguments, "--demo", str(self.demo_state), "--api", self.sim_url]
        users = self.folders.var / "users.json"
        servers.write_secret(users, json.dumps({name: secrets.token_urlsafe(9) for name in OWN_USERS}))
        self.passwords = json.loads(users.read_text())
        arguments += ["--slug", target.slug, "--kubeconfig", str(target.kubeconfig)]
        return [
            *arguments,
            "--context",
            target.context,
            "--prometheus",
            target.prometheus,
            "--users",
            str(users),
        ]

    def _start_web_and_worker(self) -> None:
        self.supervisor.start(processes.worker(self.folders, self.environment))
        self.supervisor.start(processes.web(self.folders, self.environment, self.options.port))

    # ------------------------------------------------------------------ waiting
    def _wait(self, what: str, seconds: float, done: Any, log: Path) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            self.supervisor.check()
            if time.monotonic() > deadline:
                raise LaunchError(f"{what} took longer than {seconds:.0f} s", log=log)
            time.sleep(0.1)

    def _serves(self) -> bool:
        return http.get_json(f"{self.url}/healthz/live")[0] == 200

    def _health(self) -> Mapping[str, Any]:
        body = http.get_json(f"{self.url}/healthz/ready")[1]
        collection = body.get("collection") if isinstance(body, dict) else None
        return collection if isinstance(collection, dict) else {}

    def _collected(self) -> bool:
        """Every source was tried since we asked, and one of them brought data."""
        health = self._health()
        since = time.time() - self.asked_at + 1
        tried, good = health.get("oldest_attempt_seconds"), health.get("newest_good_seconds")
        if tried is None or tried > since:
            return False
        if good is None or good > since:
            raise LaunchError(
                f"all {health['sources']} sources failed; is the API reachable, and may this user read it?",
                log=self.folders.log("worker"),
            )
        return True

    def show_ready(self) -> None:
        """For --check: log in as a person would and see data on the start page."""
        name, password = ("admin", DEMO_PASSWORD) if self.demo else ("admin", self.passwords["admin"])
        self.steps.current = "the start page"
        browser = http.Browser(self.url)
        browser.log_in(name, password)
        deadline = time.monotonic() + SERVE_SECONDS
        while not http.as_of(browser.get("/")):
            if time.monotonic() > deadline:
                raise LaunchError("the start page shows nothing observed", log=self.folders.log("web"))
            time.sleep(0.5)
        self.steps.say(f"ready {self.url}/ in {time.time() - self.options.began:.1f} s")

    # ------------------------------------------------------------------ running
    def _greet(self) -> None:
        say = self.steps.say
        say("")
        say(f"GPU Portal: {self.url}/  (ready after {time.time() - self.options.began:.1f} s)")
        if self.demo:
            for name, role in DEMO_USERS:
                say(f"  {name:<8} password {DEMO_PASSWORD}   {role}")
        for name, password in self.passwords.items():
            say(f"  {name:<8} first password {password}")
        failing = self._health().get("failing", 0)
        if failing:
            say(f"  {failing} sources cannot be read: see {self.url}/sources/")
        say(f"Logs: {self.folders.logs}    Ctrl-C stops everything.")

    def watch(self) -> None:
        """Keep everything running until interrupted."""
        look = time.monotonic() + LOOK_SECONDS
        while True:
            self.supervisor.tick()
            if time.monotonic() > look:
                self._look_after_collection()
                look = time.monotonic() + LOOK_SECONDS
            time.sleep(TICK_SECONDS)

    def _look_after_collection(self) -> None:
        """A worker may go on running without taking work (after its broker went away): start it again."""
        patience = 3 * int(os.environ.get("PORTAL_COLLECT_INTERVAL") or 30) + 10
        age = self._health().get("newest_attempt_seconds")
        if age is not None and age > patience and self.supervisor.youngest("worker", "beat") > patience:
            for name in ("worker", "beat"):
                self.supervisor.restart(name, f"nothing was collected for {age:.0f} s")

    def explain(self, error: LaunchError) -> None:
        """Which stage failed, in one line, and the last lines of its log."""
        self.steps.broke()
        explain(error, stage=self.steps.current)

    def stop(self) -> None:
        if self.ready and not self.options.check:
            self.steps.say("stopping …")
        if self.static is not None:
            self.static.kill_group()
        self.supervisor.stop()


def explain(error: LaunchError, stage: str) -> None:
    lines = last_lines(error.log) if error.log is not None else []
    clear = [line for line in lines if line.startswith("gpu-portal: ")]
    if clear:
        print(clear[-1], file=sys.stderr, flush=True)
        return
    print(f"gpu-portal: {stage}: {error}", file=sys.stderr)
    if lines:
        print("\n".join([f"last lines of {error.log}:", *(f"  {line}" for line in lines)]), file=sys.stderr)
    sys.stderr.flush()


def require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LaunchError(
                f"port {port} cannot be used ({error.strerror}); choose another with --port"
            ) from error


def _same_port(remembered: Path) -> int | None:
    """The port of the last time, when it is free: then nothing that points to it has to change."""
    try:
        port = int(remembered.read_text())
        require_free(port)
    except (OSError, ValueError, LaunchError):
        return None
    return port


def run_out(child: Child, seconds: float) -> int:
    """Wait for a child that ends by itself; its exit code."""
    try:
        return int(child.process.wait(seconds))
    except subprocess.TimeoutExpired as error:
        raise LaunchError(
            f"{child.spec.name} took longer than {seconds:.0f} s", log=child.spec.log
        ) from error
    finally:
        child.kill_group()


def follow_steps(spec: Spec, steps: Steps, supervisor: Supervisor) -> None:
    """Run a child to its end; its lines `@step …` become our steps and `@error …` our error."""
    offset = spec.log.stat().st_size if spec.log.exists() else 0
    child = Child(spec)
    deadline = time.monotonic() + PREPARE_SECONDS
    try:
        with spec.log.open("r", errors="replace") as log:
            log.seek(offset)
            ended = False
            while not ended:
                ended = not child.alive
                _relay(log, steps)
                supervisor.check()
                if time.monotonic() > deadline:
                    raise LaunchError(f"took longer than {PREPARE_SECONDS:.0f} s", log=spec.log)
                time.sleep(0.05)
        if child.process.returncode:
            raise LaunchError(f"{spec.name} {child.ended_how()}", log=spec.log)
    finally:
        child.kill_group()


def _relay(lines: Iterable[str], steps: Steps) -> None:
    for line in lines:
        if line.startswith("@step "):
            steps.begin(line.removeprefix("@step ").strip())
        elif line.startswith("@error "):
            raise LaunchError(line.removeprefix("@error ").strip())


def rotate_logs(folders: Folders) -> None:
    """Each start writes new logs; those of the start before are kept as `<name>.log.1`."""
    for path in folders.logs.glob("*.log"):
        path.replace(path.with_suffix(".log.1"))
