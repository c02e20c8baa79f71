"""Every setting's parser: what it takes, and the one line it gives for what it does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuportal.environment import BadSetting, Environment

ROOT = Path(__file__).resolve().parents[2]
GOOD = {
    "PATH": os.environ["PATH"],
    "DATABASE_URL": "postgresql://u:hidden-password@127.0.0.1:1/db",
    "PORTAL_SECRET_KEY": "x" * 50,
}


def load_settings(**changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import gpuportal.settings"],
        cwd=ROOT,
        env={**GOOD, **changes},
        capture_output=True,
        text=True,
        check=False,
    )


def test_settings_load_from_the_least_environment() -> None:
    done = load_settings()
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", ""),
        ("DATABASE_URL", "mysql://root:hidden-password@db/x"),
        ("DATABASE_URL", "postgresql://u:hidden-password@[::1/x"),
        ("DATABASE_URL", "postgresql://u:hidden-password@db:port/x"),
        ("DATABASE_URL_FILE", "/nonexistent/file"),
        ("REDIS_URL", "http://:hidden-password@redis"),
        ("PORTAL_SECRET_KEY", ""),
        ("PORTAL_SECRET_KEY", "short"),
        ("PORTAL_DEBUG", "maybe"),
        ("PORTAL_BEHIND_TLS", "2"),
        ("PORTAL_PROCESS", "cron"),
        ("PORTAL_TIME_ZONE", "Mars/Olympus"),
        ("PORTAL_LANGUAGE", "de"),
        ("PORTAL_COLLECT_INTERVAL", "0"),
        ("PORTAL_COLLECT_INTERVAL", "soon"),
        ("PORTAL_STATEMENT_TIMEOUT_MS", "10"),
        ("PORTAL_CONNECT_TIMEOUT", "61"),
        ("PORTAL_API_RATE", "600"),
        ("PORTAL_API_RATE", "0/min"),
        ("PORTAL_API_RATE", "-1/min"),
        ("PORTAL_API_FAILED_RATE", "20/week"),
        ("PORTAL_READ_TIMEOUT", "-1"),
        ("PORTAL_EVENT_RETENTION_DAYS", "0"),
        ("PORTAL_SAMPLE_RETENTION_DAYS", "1.5"),
        ("PORTAL_TRANSITION_RETENTION_DAYS", "many"),
        ("PORTAL_RUN_RETENTION_DAYS", "0"),
        ("PORTAL_GONE_RETENTION_DAYS", "99999"),
        ("PORTAL_LOG_LEVEL", "LOUD"),
        ("PORTAL_TRUSTED_ORIGINS", "portal.example.com"),
        ("PORTAL_ALLOWED_HOSTS", "https://portal.example.com"),
    ],
)
def test_a_bad_value_stops_the_start_with_one_line_that_names_it(name: str, value: str) -> None:
    done = load_settings(**{name: value})
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 1
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"gpu-portal: {name}: ")
    assert "hidden-password" not in lines[0]


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("from a file\n")
    assert Environment({"KEY_FILE": str(file), "KEY": "from the environment"}).text("KEY") == "from a file"


@pytest.mark.parametrize(
    ("text", "flag"), [("1", True), ("Yes", True), ("on", True), ("false", False), ("0", False)]
)
def test_flag_takes_the_usual_words(text: str, flag: bool) -> None:
    assert Environment({"F": text}).flag("F", not flag) is flag


def test_an_empty_value_is_the_default() -> None:
    env = Environment({"N": "  "})
    assert env.integer("N", 7, low=1, high=9) == 7
    assert env.words("N", ["a"]) == ["a"]


def test_words_are_split_and_trimmed() -> None:
    assert Environment({"W": " a , b,,c "}).words("W", []) == ["a", "b", "c"]


def test_integer_says_its_range() -> None:
    with pytest.raises(BadSetting, match="N: '10' is not a whole number from 1 to 9"):
        Environment({"N": "10"}).integer("N", 1, low=1, high=9)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", (10, 1)),
        ("600/min", (600, 60)),
        ("5000/h", (5000, 3600)),
        ("1/d", (1, 86_400)),
        ("OFF", None),
    ],
)
def test_a_rate_is_so_many_in_so_many_seconds(text: str, rate: tuple[int, int] | None) -> None:
    assert Environment({"R": text}).rate("R", (7, 7)) == rate


def test_an_object_is_named_with_its_namespace() -> None:
    assert Environment({}).object_name("X", "a/b") == ("a", "b")
    assert Environment({"X": "volcano/my.conf-2"}).object_name("X", "a/b") == ("volcano", "my.conf-2")
    for bad in ("b", "a/b/c", "/b", "a/", "A/b", "a/-b", "a.b/c"):
        with pytest.raises(BadSetting, match="is not namespace/name"):
            Environment({"X": bad}).object_name("X", "a/b")
