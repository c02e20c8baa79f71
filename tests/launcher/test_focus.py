"""`./portal test --focus` looks for a Python 3.12, says when there is none, and makes the environment once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuportal.launcher import focus
from gpuportal.launcher.errors import LaunchError

ROOT = Path(__file__).resolve().parents[2]


def program(path: Path, script: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_one_that_works_is_taken_from_path(tmp_path: Path) -> None:
    """A shim that only says that it would need to be told a version is passed over."""
    program(tmp_path / "shims" / "python3.12", "echo 'command not found' >&2; exit 127")
    program(tmp_path / "bin" / "python", "exit 1")
    fits = program(tmp_path / "bin" / "python3", "exit 0")
    environ = {"PATH": f"{tmp_path / 'shims'}:{tmp_path / 'bin'}", "HOME": str(tmp_path)}
    assert focus.find_python(environ) == fits


def test_those_of_pyenv_come_last_the_newest_first(tmp_path: Path) -> None:
    program(tmp_path / "versions" / "3.12.1" / "bin" / "python3.12", "exit 0")
    newest = program(tmp_path / "versions" / "3.12.4" / "bin" / "python3.12", "exit 0")
    program(tmp_path / "versions" / "3.13.0" / "bin" / "python3.12", "exit 0")
    assert focus.find_python({"PATH": str(tmp_path), "PYENV_ROOT": str(tmp_path)}) == newest


def test_a_named_one_is_the_only_one(tmp_path: Path) -> None:
    fits = program(tmp_path / "python3.12", "exit 0")
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    assert focus.find_python({**environ, "PORTAL_FOCUS_PYTHON": str(tmp_path / "none")}) is None
    assert focus.find_python({**environ, "PORTAL_FOCUS_PYTHON": fits}) == fits


def test_this_python_is_asked_and_not_believed_by_its_name(tmp_path: Path) -> None:
    program(tmp_path / "python3.12", f'exec "{sys.executable}" "$@"')
    found = focus.find_python({"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert (found is not None) == (sys.version_info[:2] == (3, 12))


@pytest.mark.parametrize(("required", "code"), [("", 0), ("browser,focus", 1)])
def test_without_one_it_is_skipped_with_a_sentence_unless_it_is_required(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    required: str,
    code: int,
) -> None:
    monkeypatch.setenv("PORTAL_FOCUS_PYTHON", str(tmp_path / "none"))
    monkeypatch.setenv("PORTAL_TEST_REQUIRE", required)
    assert focus.run_focus(ROOT, []) == code
    said = capsys.readouterr().err
    assert "skipped" in said
    assert "Python 3.12" in said


def test_the_environment_is_made_once_for_each_list_of_packages(tmp_path: Path) -> None:
    """Stands in for Python and its pip: it notes what it was asked and makes what `venv` would."""
    asked = tmp_path / "asked"
    python = program(
        tmp_path / "python3.12",
        f'echo "$@" >>"{asked}"\nif [ "$2" = venv ]; then mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; fi',
    )
    (tmp_path / focus.REQUIREMENTS).write_text("one\n")
    folder = focus.environment(tmp_path, python)
    assert folder == tmp_path / "var" / "cache" / "focus"
    assert focus.environment(tmp_path, python) == folder
    lines = asked.read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["venv", "pip"]
    assert "--require-hashes" in lines[1]
    (tmp_path / focus.REQUIREMENTS).write_text("two\n")
    focus.environment(tmp_path, python)
    assert len(asked.read_text().splitlines()) == 4


def test_an_environment_that_was_not_finished_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / focus.REQUIREMENTS).write_text("one\n")
    broken = program(tmp_path / "broken", "exit 3")
    for _time in range(2):
        with pytest.raises(LaunchError, match="could not be made"):
            focus.environment(tmp_path, broken)
