"""`./portal up` as a person runs it: started twice, interrupted, hurt while it runs, and killed.

The tests go in the order of this file and share one installation, as a person would.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import redis

from gpuportal.launcher.lock import running_environment
from tests.launcher.checkout import Checkout, Running, free_port, happens

INTERVAL = 6


@pytest.fixture(scope="module")
def first(checkout: Checkout) -> float:
    """Seconds of the first start, which migrates, compresses and imports."""
    return checked(checkout)


def checked(checkout: Checkout) -> float:
    done = checkout.up("--check")
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(
        rf"^ready http://127\.0\.0\.1:{checkout.port}/ in ([\d.]+) s$", done.stdout, re.MULTILINE
    )
    assert found, done.stdout
    assert checkout.nothing_runs(), checkout.processes()
    return float(found.group(1))


@pytest.fixture(scope="module")
def running(checkout: Checkout, first: float) -> Iterator[Running]:
    portal = checkout.start(PORTAL_COLLECT_INTERVAL=str(INTERVAL))
    yield portal
    if portal.process.poll() is None:
        portal.stop()


def test_a_second_start_keeps_the_data_and_is_not_slower(checkout: Checkout, first: float) -> None:
    # It neither migrates nor imports; how much that saves depends on what else the machine does meanwhile.
    assert checked(checkout) < 1.5 * first


def test_the_address_and_the_demo_users_are_printed(running: Running) -> None:
    assert f"GPU Portal: http://127.0.0.1:{running.checkout.port}/" in running.said
    for user in ("admin", "approver", "lead", "finance", "viewer"):
        assert re.search(rf"^  {user} +password demo ", running.said, re.MULTILINE)


def test_what_is_secret_is_readable_by_its_owner_only(running: Running) -> None:
    var = running.checkout.root / "var"
    for name in ("secret-key", "running.json", "redis/redis.conf"):
        assert stat.S_IMODE((var / name).stat().st_mode) == 0o600, name


def test_a_second_portal_in_the_same_folder_is_refused_in_one_line(running: Running) -> None:
    done = running.checkout.portal("up", "--port", str(free_port()))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"already runs: http://127.0.0.1:{running.checkout.port}/" in done.stderr


def test_manage_and_backup_use_the_running_servers(running: Running) -> None:
    done = running.checkout.portal(
        "manage",
        "shell",
        "-v",
        "0",
        "-c",
        "from apps.fleet.models import Cluster as C; print(C.objects.count())",
    )
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr
    dump = running.checkout.root / "dump"
    done = running.checkout.portal("backup", str(dump))
    assert done.returncode == 0, done.stderr
    assert dump.read_bytes()[:5] == b"PGDMP"


def test_the_numbers_are_fresh_again_after_the_worker_was_killed_and_redis_restarted(
    running: Running,
) -> None:
    worker = running.child("celery -A gpuportal worker")
    os.kill(worker, signal.SIGKILL)
    environment = running_environment(running.checkout.root / "var")
    assert environment is not None
    os.kill(running.child("redis-server"), signal.SIGKILL)
    hurt = time.time()
    assert happens(lambda: time.time() - running.newest_good() > hurt + 1, 2 * INTERVAL + 10), running.said
    assert "[worker] was ended by SIGKILL; starting it again" in running.said
    assert "[redis] was ended by SIGKILL; starting it again" in running.said
    assert running.child("celery -A gpuportal worker") != worker
    url = environment["REDIS_URL"]
    assert urlsplit(url).password
    client = redis.Redis.from_url(url)
    assert client.ping()
    client.close()


def test_every_source_is_read_again_two_intervals_later(running: Running) -> None:
    time.sleep(2 * INTERVAL)
    assert running.newest_good() < 2 * INTERVAL


def test_a_killed_postgres_comes_back(running: Running) -> None:
    os.kill(running.child("bin/postgres -D"), signal.SIGKILL)
    hurt = time.time()
    assert happens(lambda: time.time() - running.newest_good() > hurt + 1, 2 * INTERVAL + 15), running.said


def test_ctrl_c_leaves_no_process(running: Running) -> None:
    assert len(running.checkout.processes()) > 8
    began = time.monotonic()
    assert running.stop(signal.SIGINT) == 0
    assert time.monotonic() - began < 20
    assert running.checkout.nothing_runs(2), running.checkout.processes()


def test_sigterm_while_starting_leaves_no_process(checkout: Checkout, first: float) -> None:
    process = subprocess.Popen(
        checkout.command("up", "--port", str(checkout.port), "--demo-days", "1"),
        cwd=checkout.root,
        env=checkout.env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert happens(lambda: any("bin/postgres" in c for c in checkout.processes().values()), 30)
    process.terminate()
    assert process.wait(40) == 130
    assert checkout.nothing_runs(2), checkout.processes()


def test_a_killed_launcher_leaves_no_process_and_the_next_start_works(
    checkout: Checkout, first: float
) -> None:
    portal = checkout.start()
    portal.process.kill()
    portal.process.wait()
    assert checkout.nothing_runs(20), checkout.processes()
    checked(checkout)
