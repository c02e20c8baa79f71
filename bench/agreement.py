"""The quota tree and the admission engine against where a real Kueue came to rest with generated setups.

Input: the recordings that are kept in tests/data/settled (tests/differential says how they are made); output: how many
percent of all comparisons agree, and every disagreement with what explains it. There is no floor: the target is
agreement itself.
"""

from __future__ import annotations

import argparse

from bench._report import Result, report
from tests.differential.compare import ARITHMETIC
from tests.differential.kept import agreement


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    found = agreement()
    for one in found.differ:
        print(one)
    for what, made in sorted(found.made.items()):
        print(f"{what}: {found.share(what):.2f} % of {made}")
    results = [
        Result("quota arithmetic that agrees", float(found.share(*ARITHMETIC)), "%", 99, "higher"),
        Result("admitted work that agrees", float(found.share("admitted")), "%", 95, "higher"),
        Result("disagreements without explanation", sum(not one.why for one in found.differ), "", 0, "lower"),
    ]
    report("agreement", results, as_json=as_json)


if __name__ == "__main__":
    main()
