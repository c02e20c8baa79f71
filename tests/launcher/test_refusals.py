"""What cannot work gives one clear line and an exit code, and leaves nothing behind."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher.checkout import Checkout, free_port

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: real
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
contexts: [{{name: real, context: {{cluster: c, user: u}}}}]
users: [{{name: u, user: {{token: hidden-token}}}}]
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A good file that names an API server where nobody listens."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG.format(port=free_port()))
    return path


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def refused(done: subprocess.CompletedProcess[str], *says: str) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("gpu-portal: ")
    for text in says:
        assert text in lines[0]
    assert "hidden" not in lines[0].replace("(hidden)", "")


def test_a_taken_port(checkout: Checkout, taken_port: int) -> None:
    refused(checkout.portal("up", "--port", str(taken_port)), f"port {taken_port} cannot be used", "--port")


def test_no_such_kubeconfig(checkout: Checkout) -> None:
    refused(checkout.up("--kubeconfig", "nowhere/config"), "nowhere/config: No such file")


def test_a_broken_kubeconfig(checkout: Checkout, kubeconfig: Path) -> None:
    kubeconfig.write_text("clusters: [")
    refused(checkout.up("--kubeconfig", str(kubeconfig)), "not YAML")


def test_an_unknown_context(checkout: Checkout, kubeconfig: Path) -> None:
    refused(checkout.up("--kubeconfig", str(kubeconfig), "--context", "x"), "no context 'x'; it has: real")


def test_an_unreachable_api(checkout: Checkout, kubeconfig: Path) -> None:
    done = checkout.up("--check", "--kubeconfig", str(kubeconfig))
    refused(done, "asking the cluster's API: ")
    assert checkout.nothing_runs(2), checkout.processes()


def test_a_kubeconfig_is_relative_to_where_the_person_is(checkout: Checkout, kubeconfig: Path) -> None:
    done = subprocess.run(
        checkout.command("up", "--kubeconfig", kubeconfig.name, "--context", "x"),
        cwd=kubeconfig.parent,
        env=checkout.env(),
        capture_output=True,
        text=True,
        check=False,
    )
    refused(done, "no context 'x'")


def test_options_that_need_a_kubeconfig(checkout: Checkout) -> None:
    refused(checkout.up("--prometheus", "http://127.0.0.1:9090"), "go with --kubeconfig")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("DATABASE_URL", "postgresql://u:hidden@127.0.0.1:1/x", "DATABASE_URL: PostgreSQL cannot be used"),
        ("DATABASE_URL", "sqlite:///hidden", "DATABASE_URL: (hidden) is not a URL"),
        ("REDIS_URL", "redis://:hidden@127.0.0.1:1/0", "REDIS_URL: Redis cannot be used"),
        ("PORTAL_COLLECT_INTERVAL", "often", "PORTAL_COLLECT_INTERVAL: 'often' is not a whole number"),
        ("PORTAL_LANGUAGE", "tlh", "PORTAL_LANGUAGE: 'tlh' is not one of"),
    ],
)
def test_a_bad_setting(checkout: Checkout, name: str, value: str, says: str) -> None:
    refused(checkout.up(**{name: value}), says)
    assert checkout.nothing_runs(2), checkout.processes()


def bare_checkout(checkout: Checkout, folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    """`./portal up` on a machine with a shell and this as its only Python."""
    tools, bare = folder / "bin", folder / "checkout"
    tools.mkdir()
    bare.mkdir()
    for tool in ("dirname", "basename", "cat", "cksum", "date"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    (tools / "python3").write_text(python)
    (tools / "python3").chmod(0o755)
    for name in ("portal", "requirements.txt"):
        shutil.copy2(checkout.root / name, bare / name)
    done = subprocess.run(
        ["/bin/sh", str(bare / "portal"), "up"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (bare / ".venv").exists()
    return done


def test_no_python(checkout: Checkout, tmp_path: Path) -> None:
    done = bare_checkout(checkout, tmp_path, "#!/bin/sh\nexit 1\n")
    refused(done, "no Python 3.11 or newer found", "PORTAL_PYTHON")


def test_a_python_without_venv(checkout: Checkout, tmp_path: Path) -> None:
    """Debian's python3 comes without it."""
    done = bare_checkout(checkout, tmp_path, '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1 ;; esac\n')
    refused(done, "python3 has no venv module", "apt-get install python3-venv")


@pytest.mark.parametrize("arguments", [["--port", "0"], ["--port", "70000"], ["--port", "x"], ["--nonsense"]])
def test_a_wrong_command_line(checkout: Checkout, arguments: list[str]) -> None:
    done = checkout.portal("up", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_an_unknown_command(checkout: Checkout) -> None:
    done = checkout.portal("fly")
    assert done.returncode == 1
    assert "unknown command: fly" in done.stderr


def test_alone_it_prints_help(checkout: Checkout) -> None:
    done = checkout.portal()
    assert done.returncode == 0
    assert "usage: ./portal COMMAND" in done.stdout
