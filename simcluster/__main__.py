"""`python -m simcluster serve`: a demo cluster on a loopback port.

Writes DIR/kubeconfig.yaml before it answers. Every failure is one line on stderr and exit status 1 (2: usage).
"""

from __future__ import annotations

import argparse
import errno
import signal
import sys
import threading
import time
from pathlib import Path

from simcluster import recorded
from simcluster.access import Tokens
from simcluster.bulk import Bulk, fill_bulk
from simcluster.driver import Driver
from simcluster.scenario import FOLDER, ScenarioError, load
from simcluster.server import Cluster, Server
from simcluster.state import StateError, kubeconfig, load_state, write_file
from simcluster.store import Store
from simcluster.telemetry import Telemetry

_LOOK_SECONDS = 0.1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simcluster", description="A simulated GPU cluster for demos and tests."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve a Kubernetes API and a Prometheus API on 127.0.0.1")
    serve.add_argument("--port", type=int, required=True, help="0 takes any free one")
    serve.add_argument(
        "--state", type=Path, required=True, metavar="DIR", help="folder for state and kubeconfig"
    )
    serve.add_argument("--seed", type=int, help="another seed starts another history")
    serve.add_argument("--days", type=float, default=14.0, help="days of history at the first start")
    serve.add_argument(
        "--scenario", type=Path, default=FOLDER, metavar="DIR", help="folder with the scenario files"
    )
    serve.add_argument(
        "--recordings", type=Path, metavar="DIR", help="serve recorded lists instead of a scenario"
    )
    serve.add_argument(
        "--bulk",
        type=_bulk,
        metavar="PODS,WORKLOADS,QUEUES",
        help="serve this many synthetic objects instead",
    )
    serve.add_argument(
        "--without",
        action="append",
        default=[],
        choices=("kueue", "volcano", "devices", "prometheus"),
        help="not installed",
    )
    serve.add_argument(
        "--kueue-versions", default="v1beta2,v1beta1", help="served versions of Kueue's API, preferred first"
    )
    serve.add_argument(
        "--editor",
        action="append",
        default=[],
        metavar="USER",
        help="who may change things when a request is made in their name (Impersonate-User)",
    )
    return parser


def _bulk(text: str) -> Bulk:
    pods, workloads, queues = (int(part) for part in text.split(","))
    return Bulk(pods=pods, workloads=workloads, queues=queues)


def _static_cluster(options: argparse.Namespace, tokens: Tokens, now: float) -> Cluster:
    """Recorded lists or bulk objects: nothing moves by itself, and there is no Prometheus."""
    store, absent = Store(now=now), frozenset(options.without) | {"prometheus"}
    if options.recordings is not None:
        absent |= recorded.absent_in(recorded.fill(store, options.recordings))
    else:
        fill_bulk(store, options.bulk)
        absent |= {"volcano", "devices"}
    cluster = Cluster(store, Telemetry(now), tokens, absent=absent, epoch=now)
    cluster.ready.set()
    return cluster


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _serve(options)
    except (StateError, ScenarioError, ValueError) as error:
        _say(f"{error}")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            _say(f"port {options.port} on 127.0.0.1 is taken")
        else:
            _say(f"{error}")
    return 1


def _serve(options: argparse.Namespace) -> int:
    asked_to_stop = _note_signals()
    now = time.time()
    state = load_state(options.state, seed=options.seed, days=options.days, now=now)
    tokens = Tokens(state.admin_token, state.viewer_token, editors=frozenset(options.editor))
    driver: Driver | None = None
    if options.recordings is not None or options.bulk is not None:
        cluster = _static_cluster(options, tokens, now)
    else:
        driver = Driver(
            load(options.scenario),
            seed=state.seed,
            epoch=state.epoch,
            tokens=tokens,
            folder=options.state,
            absent=frozenset(options.without),
            kueue_versions=tuple(options.kueue_versions.split(",")),
        )
        cluster = driver.cluster
    server = Server(cluster, options.port)
    cluster.about = {"url": server.url, "seed": state.seed}
    write_file(
        options.state / "kubeconfig.yaml", kubeconfig(server.url, state.admin_token, state.viewer_token)
    )
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    if driver is not None:
        took = driver.catch_up()
        driver.start()
        _say(f"{options.days:g} days simulated in {took:.1f} s")
    sys.stdout.write(f"ready {server.url}\n")
    sys.stdout.flush()
    # The kernel may hand a signal to any thread, which does not wake this one: so it looks by itself.
    while not asked_to_stop:
        time.sleep(_LOOK_SECONDS)
    if driver is not None:
        driver.stop()
    cluster.faults.over.set()
    server.shutdown()
    server.server_close()
    return 0


def _say(words: str) -> None:
    sys.stderr.write(f"simcluster: {words}\n")


def _note_signals() -> list[int]:
    """The signals that asked to stop, as they come. A list, since a handler that takes a lock could meet itself."""
    came: list[int] = []
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda number, _frame: came.append(number))
    return came


if __name__ == "__main__":
    sys.exit(main())
