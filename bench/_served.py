"""The simulated cluster of a benchmark, in a process of its own: its work and memory are not the worker's.

Prints one JSON line with `kubeconfig` when it is ready; then each line on stdin changes that share (percent) of
the pods and workloads and is answered with the number of changed objects. Ends with stdin.
"""

from __future__ import annotations

import json
import sys

from simcluster.testing import Bulk, running


def main() -> None:
    pods, workloads, queues = (int(word) for word in sys.argv[1:4])
    with running(synthetic=Bulk(pods=pods, workloads=workloads, queues=queues)) as sim:
        print(json.dumps({"kubeconfig": str(sim.kubeconfig)}), flush=True)
        for line in sys.stdin:
            changed = sum(sim.store.mutate(kind, float(line)) for kind in ("Pod", "Workload"))
            print(json.dumps({"changed": changed}), flush=True)


if __name__ == "__main__":
    main()
