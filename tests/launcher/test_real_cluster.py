"""`./portal up --kubeconfig`: the recorded lists of a real Kueue cluster, served over HTTP as they were."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from simcluster.testing import Running, running
from tests.launcher.checkout import Checkout

RECORDED = Path(__file__).resolve().parents[1] / "data" / "kueue"
NAMES = "from apps.fleet.models import Cluster as C; print(*C.objects.values_list('slug', 'is_demo', 'kube_context'))"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    with running(recordings=RECORDED) as found:
        yield found


def test_it_is_shown_with_users_and_a_database_of_its_own(checkout: Checkout, cluster: Running) -> None:
    options = ("--kubeconfig", str(cluster.kubeconfig), "--context", "demo")
    done = checkout.up("--check", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "naming the cluster" in done.stdout

    users = checkout.root / "var" / "users.json"
    assert stat.S_IMODE(users.stat().st_mode) == 0o600
    passwords = json.loads(users.read_text())
    assert sorted(passwords) == ["admin", "finance", "viewer"]
    assert len(set(passwords.values())) == 3
    assert not any(password in done.stdout for password in passwords.values())

    asked = checkout.portal("manage", "shell", "-v", "0", "-c", NAMES)
    assert asked.stdout.strip() == "('demo', False, 'demo')", asked.stderr

    again = checkout.up("--check", *options)
    assert again.returncode == 0, again.stdout + again.stderr
    assert json.loads(users.read_text()) == passwords
    assert checkout.nothing_runs(), checkout.processes()


def test_a_token_that_is_refused_gives_one_line(checkout: Checkout, cluster: Running, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(cluster.kubeconfig.read_text().replace("token: ", "token: wrong-"))
    done = checkout.up("--check", "--kubeconfig", str(config))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "asking the cluster's API: " in done.stderr
    assert "401" in done.stderr or "nauthorized" in done.stderr
    assert "wrong-" not in done.stderr
