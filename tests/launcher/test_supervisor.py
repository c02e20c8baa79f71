"""Children are real processes here: they die, resist, leave others behind, and lose their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuportal.launcher.children import Child, Spec, stop_all
from gpuportal.launcher.errors import LaunchError
from gpuportal.launcher.supervisor import Supervisor

ROOT = Path(__file__).resolve().parents[2]
LEAVES_A_CHILD = "sleep 300 & echo $! > child; wait"
IGNORES_TERM = "trap '' TERM; while :; do sleep 0.05; done"


def shell(folder: Path, script: str, name: str = "job", **more: object) -> Spec:
    return Spec(name=name, command=["sh", "-c", script], log=folder / f"{name}.log", cwd=folder, **more)  # type: ignore[arg-type]


def until(true: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """A zombie does not run any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def pid_in(path: Path) -> int:
    until(lambda: path.exists() and bool(path.read_text().strip()))
    return int(path.read_text())


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(said: list[str]) -> Iterator[Supervisor]:
    made = Supervisor(said.append)
    yield made
    made.stop()


def test_a_dead_child_is_started_again_later_each_time(
    supervisor: Supervisor, said: list[str], tmp_path: Path
) -> None:
    supervisor.start(shell(tmp_path, "echo broken; date +%s.%N >> starts; exit 3"))
    starts = tmp_path / "starts"

    def started(times: int) -> bool:
        supervisor.tick()
        return starts.exists() and len(starts.read_text().split()) >= times

    until(lambda: started(3), 15)
    first, second, third = (float(at) for at in starts.read_text().split()[:3])
    assert 0.9 < second - first < third - second
    assert said[0].startswith("[job] ended with exit code 3; starting it again in 1 s")
    assert "[job] | broken" in said


def test_what_a_killed_child_left_behind_is_gone_before_its_successor(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    child = supervisor.start(shell(tmp_path, LEAVES_A_CHILD))
    left = pid_in(tmp_path / "child")
    child.process.kill()
    until(lambda: not child.alive)
    supervisor.tick()
    until(lambda: not runs(left))


def test_while_starting_a_death_is_an_error_that_names_the_log(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    child = supervisor.start(shell(tmp_path, "exit 5"))
    until(lambda: not child.alive)
    with pytest.raises(LaunchError, match="job ended with exit code 5") as caught:
        supervisor.check()
    assert caught.value.log == tmp_path / "job.log"


def test_restart_ends_a_child_and_tick_brings_a_new_one(
    supervisor: Supervisor, said: list[str], tmp_path: Path
) -> None:
    first = supervisor.start(shell(tmp_path, "sleep 300"))
    supervisor.restart("job", "it does not work")
    assert not first.alive

    def renewed() -> bool:
        supervisor.tick()
        now = supervisor.posts["job"].child
        return now is not None and now.alive

    until(renewed)
    assert said[0] == "[job] it does not work: starting it again"


def test_stop_goes_tier_by_tier(supervisor: Supervisor, tmp_path: Path) -> None:
    note = "trap 'date +%s.%N > {0}; exit' TERM; touch {0}.up; while :; do sleep 0.02; done"
    supervisor.start(shell(tmp_path, note.format("late"), "late", stop_tier=9))
    supervisor.start(shell(tmp_path, note.format("early"), "early", stop_tier=1))
    until(lambda: (tmp_path / "late.up").exists() and (tmp_path / "early.up").exists())
    supervisor.stop()
    assert float((tmp_path / "early").read_text()) < float((tmp_path / "late").read_text())


def test_who_does_not_listen_is_killed_with_its_group(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, f"sleep 300 & echo $! > child; {IGNORES_TERM}", stop_seconds=0.3))
    left = pid_in(tmp_path / "child")
    stop_all([child])
    assert child.process.returncode == -signal.SIGKILL
    until(lambda: not runs(left))


def test_children_end_when_the_launcher_is_killed(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("the kernel only tells children about their parent's death on Linux")
    script = (
        "import sys, time, pathlib\n"
        "from gpuportal.launcher.children import Child, Spec\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "command = ['sh', '-c', 'echo $$ > child; exec sleep 300']\n"
        "Child(Spec(name='x', command=command, log=folder / 'x.log', cwd=folder))\n"
        "time.sleep(300)\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    pid = pid_in(tmp_path / "child")
    assert runs(pid)
    launcher.kill()
    launcher.wait()
    until(lambda: not runs(pid))


def test_a_child_runs_as_another_user_when_we_are_root(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    spec = Spec(name="who", command=["id", "-un"], log=tmp_path / "who.log", cwd=Path("/"), user="nobody")
    child = Child(spec)
    child.process.wait(10)
    assert (tmp_path / "who.log").read_text() == "nobody\n"


def test_a_log_that_grew_too_long_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuportal.launcher.children.LOG_LIMIT", 10)
    (tmp_path / "job.log").write_text("x" * 11)
    child = Child(shell(tmp_path, "echo new"))
    child.process.wait(10)
    assert (tmp_path / "job.log").read_text() == "new\n"
    assert (tmp_path / "job.log.1").read_text() == "x" * 11
