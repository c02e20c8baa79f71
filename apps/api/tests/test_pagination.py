"""Cursors: every row that stays is read exactly once, whatever comes and goes between two pages."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import Team
from apps.api.pagination import decode_cursor, encode_cursor, page_of_ids, page_of_rows
from apps.api.tests.world import World, workload

# PostgreSQL holds no NUL, so that no key of a row has one.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
KEYS = st.tuples(st.integers(-(2**62), 2**62), TEXTS)


@given(key=KEYS, route=st.text(max_size=10))
def test_a_cursor_gives_its_key_back(key: Any, route: str) -> None:
    assert decode_cursor(encode_cursor(key, route=route), route=route) == key
    assert decode_cursor(encode_cursor(key, route=route), route=route + "x") is None


def test_a_key_that_no_row_can_have_is_no_cursor() -> None:
    assert decode_cursor(encode_cursor((0, "a\0b"), route="r"), route="r") is None


@given(text=st.text(max_size=60))
def test_any_other_text_is_no_cursor(text: str) -> None:
    assert decode_cursor(text, route="r") is None


@given(
    kept=st.sets(KEYS, max_size=30),
    early=st.sets(KEYS, max_size=20),
    late=st.sets(KEYS, max_size=20),
    size=st.integers(1, 7),
)
def test_rows_that_stay_are_read_once_while_others_come_and_go(
    kept: Any, early: Any, late: Any, size: int
) -> None:
    early, late = early - kept, late - kept - early
    read, after, first = [], None, True
    while True:
        rows = kept | (early if first else late)
        page = page_of_rows(rows, key=lambda row: row, after=after, size=size)
        assert len(page.rows) <= size
        read += page.rows
        if page.last is None:
            break
        after, first = page.last, False
    assert sorted(row for row in read if row in kept) == sorted(kept)
    assert len(read) == len(set(read))
    assert read == sorted(read)


@pytest.mark.django_db
@pytest.mark.parametrize(("count", "size", "pages"), [(0, 2, 1), (2, 2, 1), (3, 2, 2), (4, 2, 2), (5, 2, 3)])
def test_a_table_is_read_page_by_page(
    count: int, size: int, pages: int, django_assert_num_queries: Any
) -> None:
    Team.objects.bulk_create([Team(slug=f"t{n}", name=f"T{count - n}") for n in range(count)])
    slugs, after, seen = [], None, 0
    while True:
        with django_assert_num_queries(1):
            page = page_of_ids(Team.objects.all(), after=after, size=size)
        slugs += [team.slug for team in page.rows]
        seen += 1
        if page.last is None:
            break
        after = page.last
    assert slugs == [f"t{n}" for n in range(count)]
    assert seen == pages


def read_all(client: Client, path: str, between: Callable[[], None] = lambda: None) -> list[dict[str, Any]]:
    rows = []
    while path:
        body = client.get(path).json()
        rows += body["results"]
        path = body["next"]
        between()
    return rows


def test_workloads_that_arrive_and_leave_do_not_disturb_the_reading(world: World) -> None:
    names = iter(range(100))

    def someone_arrives() -> None:
        workload(world, f"late-{next(names)}", queued_at=world.now)

    rows = read_all(
        world.client("finance"),
        "/api/v1/workloads/?page_size=2&kind=Workload",
        someone_arrives_once(someone_arrives, 3),
    )
    uids = [row["uid"] for row in rows]
    assert len(uids) == len(set(uids))
    assert {"uid-red-waits", "uid-red-runs", "uid-blue-waits", "uid-blue-runs", "uid-nobodys"} <= set(uids)


def test_waiting_work_is_paged_from_the_longest_wait_on(world: World) -> None:
    def someone_arrives() -> None:
        workload(world, "late", queued_at=world.now)

    rows = read_all(
        world.client("finance"),
        "/api/v1/admission-failures/?page_size=1",
        someone_arrives_once(someone_arrives, 1),
    )
    assert [row["name"] for row in rows][-1] == "late"
    assert {row["name"] for row in rows} == {"red-waits", "blue-waits", "nobodys", "late"}
    assert len(rows) == 4


def someone_arrives_once(arrive: Callable[[], None], times: int) -> Callable[[], None]:
    left = iter(range(times))

    def between() -> None:
        if next(left, None) is not None:
            arrive()

    return between


def test_the_next_page_keeps_the_filters(world: World) -> None:
    client = world.client("finance")
    body = client.get("/api/v1/workloads/?page_size=1&state=pending&cluster=east").json()
    assert body["next"].startswith("/api/v1/workloads/?page_size=1&state=pending&cluster=east&cursor=")
    names = [
        row["name"] for row in read_all(client, "/api/v1/workloads/?page_size=1&state=pending&cluster=east")
    ]
    assert names == ["red-waits", "blue-waits", "nobodys"]
