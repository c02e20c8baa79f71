"""`python -m bench NAME [--json]`: run one benchmark on the servers that the environment names."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))

if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
    sys.exit(f"usage: python -m bench NAME [--json]; there are: {', '.join(NAMES)}")
name = sys.argv.pop(1)
runpy.run_module(f"bench.{name}", run_name="__main__")
