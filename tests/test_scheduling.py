"""Which tests stay in one process."""

import pytest

from .scheduling import scope_of


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("tests/cluster/test_pages.py::test_a[x::y]", "tests/cluster/"),
        ("tests/cluster/test_rights.py::test_b", "tests/cluster/"),
        ("tests/pages/test_pages.py::test_a", "tests/pages/test_pages.py"),
        ("apps/usage/tests/test_use.py::TestIt::test_c", "apps/usage/tests/test_use.py"),
    ],
)
def test_files_stay_together_and_so_do_all_about_a_real_cluster(nodeid: str, scope: str) -> None:
    assert scope_of(nodeid) == scope
