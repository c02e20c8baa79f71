"""Keep a copy of the portal's ledger in SQLite, and prove that it has every line.

    PORTAL_TOKEN=… python sync_ledger.py https://portal.example.com ledger.sqlite

Needs a token with the scope `finance:read` of somebody who reads all teams. Lines of closed periods never change and their
`sequence` has no holes, so a copy goes on after the highest one that it has, and is whole when the count of its lines,
the highest sequence and the number that each closed period says it has all agree. Ends with 1 where they do not.
"""

import json
import os
import sqlite3
import sys

import requests

PAGE = 5000


def get(base: str, path: str) -> dict:
    headers = {"Authorization": f"Bearer {os.environ['PORTAL_TOKEN']}"}
    answer = requests.get(base + path, headers=headers, timeout=60)
    answer.raise_for_status()
    return answer.json()


def pull(base: str, copy: sqlite3.Connection) -> int:
    """Add what is new, page by page; gives the highest sequence of the portal's ledger."""
    while True:
        (after,) = copy.execute("SELECT coalesce(max(sequence), 0) FROM line").fetchone()
        page = get(base, f"/api/v1/charges/?after_seq={after}&page_size={PAGE}")
        rows = [(line["sequence"], line["period"], json.dumps(line)) for line in page["results"]]
        with copy:  # a page is kept as a whole or not at all
            copy.executemany("INSERT INTO line VALUES (?, ?, ?)", rows)
        if page["next"] is None:
            return page["last_sequence"]


def periods(base: str) -> dict:
    """{month: how many lines it has} of the closed ones."""
    found, path = {}, "/api/v1/billing-periods/?page_size=500"
    while path:
        page = get(base, path)
        found |= {one["month"]: one["entries"] for one in page["results"] if one["state"] == "closed"}
        path = page["next"]
    return found


def main(base: str, file: str) -> int:
    copy = sqlite3.connect(file)
    copy.execute("CREATE TABLE IF NOT EXISTS line (sequence INTEGER PRIMARY KEY, period TEXT, body TEXT)")
    last = pull(base.rstrip("/"), copy)
    count, highest = copy.execute("SELECT count(*), coalesce(max(sequence), 0) FROM line").fetchone()
    mine = dict(copy.execute("SELECT period, count(*) FROM line GROUP BY period"))
    theirs = periods(base.rstrip("/"))
    whole = count == highest == last and all(
        mine.get(month, 0) == entries for month, entries in theirs.items()
    )
    state = "whole" if whole else "NOT WHOLE"
    sys.stdout.write(f"{count} lines up to {highest} of {last}, {len(theirs)} closed periods: {state}\n")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
