"""The launcher's small parts: folders, targets, locks, fingerprints, progress, pages."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gpuportal.launcher import fingerprints, http, vendored
from gpuportal.launcher.errors import LaunchError, last_lines
from gpuportal.launcher.folders import Folders, folders_for, others_may_enter, private_folder
from gpuportal.launcher.linting import checks
from gpuportal.launcher.lock import installation_lock, remember_running, running_environment
from gpuportal.launcher.servers import write_secret
from gpuportal.launcher.steps import Steps
from gpuportal.launcher.target import target_for
from gpuportal.launcher.testing import default_arguments, temporary_folder

ROOT = Path(__file__).resolve().parents[2]
KUBECONFIG = """
current-context: b
contexts: [{name: a, context: {}}, {name: b, context: {}}, {name: "arn:aws:eks:x/Prod A", context: {}}]
"""


# ------------------------------------------------------------------ folders
def test_data_stays_in_var_when_the_servers_user_may_enter() -> None:
    with temporary_folder() as folder:
        assert others_may_enter(folder / "var" / "pg")
        found = folders_for(ROOT, folder / "var")
        assert found.data == found.var


def test_data_moves_when_root_keeps_others_out(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root runs the servers as somebody else")
    tmp_path.chmod(0o700)
    found = folders_for(ROOT, tmp_path / "var")
    assert found.data != found.var
    assert others_may_enter(found.data / "pg")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700, "somebody's folder must not be opened for us"
    assert folders_for(ROOT, tmp_path / "var").data == found.data
    assert folders_for(ROOT, tmp_path / "other").data != found.data
    for folder in (found.data, folders_for(ROOT, tmp_path / "other").data):
        folder.rmdir()


def test_a_socket_moves_to_a_short_folder_when_its_path_is_too_long(tmp_path: Path) -> None:
    folders = Folders(ROOT, tmp_path, tmp_path)
    assert folders.socket_folder(Path("/srv/pg"), ".s.PGSQL.5432") == Path("/srv/pg")
    long = Path("/srv") / ("x" * 100)
    moved = folders.socket_folder(long, ".s.PGSQL.5432")
    assert len(os.fsencode(moved / ".s.PGSQL.5432")) <= 107
    assert (
        moved == folders.socket_folder(long, ".s.PGSQL.5432") != folders.socket_folder(long / "y", "s" * 20)
    )


def test_a_link_in_a_shared_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(LaunchError, match="belongs to somebody else"):
        private_folder(tmp_path / "link")


# ------------------------------------------------------------------ targets
def test_target_is_the_current_context_or_the_named_one(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    assert target_for(path, None, None).context == "b"
    named = target_for(path, "arn:aws:eks:x/Prod A", "https://prom.example.com/tenant")
    assert (named.slug, named.prometheus) == ("arn-aws-eks-x-prod-a", "https://prom.example.com/tenant")


@pytest.mark.parametrize(
    ("text", "name", "prometheus", "says"),
    [
        (None, None, None, "No such file"),
        ("{", None, None, "not YAML"),
        ("\x00", None, None, "not YAML"),
        ("just words", None, None, "names no contexts"),
        ("contexts: []", None, None, "names no contexts"),
        ("contexts: [{name: a}]", None, None, "no current-context; choose one with --context: a"),
        (KUBECONFIG, "c", None, "has no context 'c'; it has: a, b"),
        (KUBECONFIG, None, "prom:9090", "not an http or https address"),
        (KUBECONFIG, None, "http://[::1", "not an http or https address"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_gives_one_line(
    tmp_path: Path, text: str | None, name: str | None, prometheus: str | None, says: str
) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(LaunchError, match=says) as caught:
        target_for(path, name, prometheus)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ locks and secrets
def test_the_lock_is_held_by_one_and_says_by_whom(tmp_path: Path) -> None:
    with installation_lock(tmp_path, "http://127.0.0.1:8000/"):
        remember_running(tmp_path, {"DATABASE_URL": "x"})
        assert running_environment(tmp_path) == {"DATABASE_URL": "x"}
        script = (
            "import pathlib, sys\n"
            "from gpuportal.launcher.lock import installation_lock\n"
            "with installation_lock(pathlib.Path(sys.argv[1]), ''): pass\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"already runs: http://127.0.0.1:8000/ (process {os.getpid()})" in done.stderr
    assert running_environment(tmp_path) is None
    with installation_lock(tmp_path, "again"):
        pass


def test_a_secret_is_written_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = write_secret(tmp_path / "key", "first")
    write_secret(path, "second")
    assert path.read_text() == "first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# ------------------------------------------------------------------ the rest
def test_a_fingerprint_moves_with_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = fingerprints.fingerprint(tmp_path, ["*"])
    (tmp_path / "a").write_text("2")
    second = fingerprints.fingerprint(tmp_path, ["*"])
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({first, second, fingerprints.fingerprint(tmp_path, ["*"])}) == 3
    fingerprints.record(tmp_path / "stamp", first)
    assert fingerprints.matches(tmp_path / "stamp", first)
    assert not fingerprints.matches(tmp_path / "stamp", second)


def test_steps_are_one_line_each() -> None:
    out = io.StringIO()
    steps = Steps(2, out)
    steps.begin("one")
    steps.begin("two")
    steps.end()
    first, second = out.getvalue().splitlines()
    assert first.startswith("[1/2] one … ")
    assert first.endswith(" s")
    assert second.startswith("[2/2] two … ")
    assert steps.current == "two"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<main id="m" class="a" data-as-of="2026-12-02T05:00:00Z" tabindex="-1">', "2026-12-02T05:00:00Z"),
        ('<main data-as-of="">', ""),
        ("<main><p data-as-of='x'></main>", None),
    ],
)
def test_as_of_is_read_from_the_page(page: str, expected: str | None) -> None:
    assert http.as_of(page) == expected


def test_the_end_of_a_log_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n".join(f"line {n}" for n in range(9000)) + "\n\n")
    assert last_lines(tmp_path / "log", 2) == ["line 8998", "line 8999"]
    assert last_lines(tmp_path / "missing") == []


def test_vendored_files_are_as_locked(tmp_path: Path) -> None:
    assert vendored.problems(ROOT / "static" / "vendor") == []
    (tmp_path / "x-1").mkdir()
    (tmp_path / "x-1" / "new.js").write_text("new")
    (tmp_path / "x-1" / "same.js").write_text("other")
    lock = [{"file": f"x-1/{name}.js", "sha256": "0" * 64} for name in ("gone", "same")]
    (tmp_path / vendored.LOCK).write_text(json.dumps(lock))
    assert vendored.problems(tmp_path) == [
        "x-1/gone.js: missing",
        f"x-1/new.js: not in {vendored.LOCK}",
        "x-1/same.js: changed",
    ]


def test_every_check_of_lint_can_be_run() -> None:
    for name, command in checks(ROOT).items():
        assert Path(command[0]).exists(), name


@pytest.mark.parametrize(
    ("arguments", "parallel"),
    [
        ([], True),
        (["-k", "quota"], True),
        (["-n", "4"], False),
        (["-n4"], False),
        (["apps/quotas/tests/test_tree.py"], False),
        (["apps/quotas"], True),
    ],
)
def test_tests_run_in_two_processes_unless_one_file_is_wanted(arguments: list[str], parallel: bool) -> None:
    assert bool(default_arguments(arguments)) is parallel
