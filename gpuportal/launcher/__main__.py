"""The launcher's command line; `./portal` calls it in .venv."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from .errors import LaunchError
from .up import Options, explain, up

ROOT = Path(__file__).resolve().parent.parent.parent


def parser() -> argparse.ArgumentParser:
    main = argparse.ArgumentParser(prog="./portal", description="Runs the GPU Portal on this machine.")
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    start = commands.add_parser("up", help="start everything; Ctrl-C stops it")
    start.add_argument("--kubeconfig", metavar="FILE", help="collect from this cluster instead of a demo one")
    start.add_argument(
        "--context", metavar="NAME", help="context of the kubeconfig (default: its current one)"
    )
    start.add_argument(
        "--prometheus", metavar="URL", help="the Prometheus that scrapes the cluster's DCGM exporters"
    )
    start.add_argument("--port", type=port_number, default=8000, metavar="N", help="default: 8000")
    start.add_argument("--check", action="store_true", help="start, wait for data on the start page, stop")
    start.add_argument(
        "--demo-days",
        type=int,
        default=14,
        choices=range(1, 61),
        metavar="N",
        help="the demo's past (default: 14)",
    )
    checks = commands.add_parser("lint", help="run every static check")
    checks.add_argument("names", nargs="*", metavar="CHECK", help="only these")
    commands.add_parser("lock", help="lock requirements*.in into requirements*.txt")
    backup = commands.add_parser("backup", help="dump the database")
    backup.add_argument("file", metavar="FILE")
    bench = commands.add_parser("bench", help="run benchmarks")
    bench.add_argument("name", nargs="?", metavar="NAME")
    bench.add_argument("--json", action="store_true", help="the last line is JSON")
    return main


def port_number(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise ValueError
    return number


def main(arguments: list[str]) -> int:
    try:
        return run(arguments)
    except LaunchError as error:
        explain(error, stage=arguments[0])
        return 1
    except OSError as error:
        explain(LaunchError(f"{error.filename or 'the system'}: {error.strerror}"), stage=arguments[0])
        return 1


def run(arguments: list[str]) -> int:
    # What these two are given belongs to pytest and Django.
    if arguments[:1] == ["test"]:
        if "--focus" in arguments:
            from .focus import run_focus

            return run_focus(ROOT, [each for each in arguments[1:] if each != "--focus"])
        from .testing import run_tests

        return run_tests(ROOT, arguments[1:])
    if arguments[:1] == ["manage"]:
        from .chores import manage

        return manage(ROOT, arguments[1:])
    options = parser().parse_args(arguments)
    if options.command == "up":
        return up(ROOT, up_options(options))
    if options.command == "lint":
        from .linting import lint

        return lint(ROOT, options.names)
    from . import chores

    if options.command == "lock":
        return chores.lock(ROOT)
    if options.command == "backup":
        return chores.backup(ROOT, from_callers_folder(options.file))
    return chores.bench(ROOT, options.name, as_json=options.json)


def up_options(options: argparse.Namespace) -> Options:
    from .target import target_for

    if not options.kubeconfig and (options.context or options.prometheus):
        raise LaunchError("--context and --prometheus go with --kubeconfig FILE")
    target = None
    if options.kubeconfig:
        target = target_for(from_callers_folder(options.kubeconfig), options.context, options.prometheus)
    return Options(target, options.port, options.check, options.demo_days, began())


def from_callers_folder(path: str) -> Path:
    """`./portal` changes to the checkout; what a person typed is relative to where they were."""
    return Path(os.environ.get("PORTAL_CWD", "."), path).absolute()


def began() -> float:
    """When `./portal` was called, so that making .venv counts."""
    try:
        return float(os.environ["PORTAL_BEGAN"])
    except (KeyError, ValueError):
        return time.time()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
