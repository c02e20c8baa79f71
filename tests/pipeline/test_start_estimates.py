"""Start estimates, back-tested on the demo's past as it is imported: the range that claims 80 % holds 75 % to 90 %."""

from __future__ import annotations

import io
import re
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from apps.admissions.backtest import backtest, coverage
from apps.admissions.past_waits import past_waits
from apps.fleet.models import Cluster
from simcluster.testing import running


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(300)
def test_ranges_hold_as_often_as_they_say() -> None:
    """Two weeks, the first three days of them only to learn from. Bounds, not outcomes: another history of the same
    scenario has to come out right as well."""
    with running(scenario=True, days=14, absent=("prometheus",)) as sim:
        cluster = Cluster.objects.create(
            slug="demo", name="Demo", kubeconfig_path=str(sim.kubeconfig), is_demo=True
        )
        call_command("import_history", api=sim.url, stdout=io.StringIO())
    waits = past_waits(cluster_id=cluster.pk, now=timezone.now())
    tried = backtest(waits, first=min(wait.began for wait in waits) + timedelta(days=3))
    share, counts = coverage(tried)
    assert share is not None
    assert 0.75 <= share <= 0.90, counts
    assert counts["held"] > 200
    said = io.StringIO()
    call_command("backtest_estimates", cluster="demo", stdout=said)
    # It looks a moment later, at which a wait more may have ended.
    found = re.search(r"(\d+) waits, (\d+) predictions\n +all +([\d.]+)%", said.getvalue())
    assert found, said.getvalue()
    assert int(found[1]) == pytest.approx(len(waits), abs=3)
    assert int(found[2]) == pytest.approx(len(tried), abs=5)
    assert float(found[3]) / 100 == pytest.approx(float(share), abs=0.005)
