"""What lines of charges name stays: the database refuses to delete it, without foreign keys of the lines."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import ForeignKey, Model, ProtectedError

from apps.accounts.models import Team
from apps.chargeback.ledger import close, keep_periods, provide
from apps.chargeback.models import BillingPeriod, LedgerEntry, ProvisionalLine, RateVersion, TeamUse
from apps.chargeback.tests.test_ledger import LATER, REASON, close_until_march, filled, march
from apps.fleet.models import Cluster

LINES = (LedgerEntry, ProvisionalLine, TeamUse)
NAMES = ("cluster", "team", "version", "price", "period")


@pytest.fixture
def month(db: None, settings: object) -> Cluster:
    return filled(settings)


def deleted(model: type[Model], pk: int) -> int:
    """By the database alone, as a plain DELETE; how many."""
    with transaction.atomic(), connection.cursor() as cursor:
        count: int = model._base_manager.filter(pk=pk)._raw_delete("default")
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    return count


def named(line: LedgerEntry | ProvisionalLine | TeamUse, name: str) -> tuple[type[Model], int]:
    """What the line names: model and key."""
    field = line._meta.get_field(name)
    assert isinstance(field, ForeignKey)
    return field.related_model, getattr(line, f"{name}_id")


def test_no_line_has_a_foreign_key(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = ANY (%s::regclass[])",
            [[line._meta.db_table for line in LINES]],
        )
        assert cursor.fetchall() == []


@pytest.mark.parametrize("name", NAMES)
def test_what_a_closed_line_names_is_not_deleted(month: Cluster, name: str) -> None:
    period = close_until_march()
    line = LedgerEntry.objects.filter(period=period, team__isnull=False, price__isnull=False)[0]
    with pytest.raises(DatabaseError, match="delete refused"):
        deleted(*named(line, name))


@pytest.mark.parametrize("name", NAMES)
def test_nor_is_what_a_provisional_line_names(month: Cluster, name: str) -> None:
    period = provide(march().pk, now=LATER)
    line = ProvisionalLine.objects.filter(period=period, team__isnull=False, price__isnull=False)[0]
    with pytest.raises(DatabaseError, match="delete refused"):
        deleted(*named(line, name))


@pytest.mark.parametrize("name", ["team", "period"])
def test_nor_is_whose_use_alone_is_kept(month: Cluster, name: str) -> None:
    period = provide(march().pk, now=LATER)
    use = TeamUse.objects.filter(period=period, team__isnull=False)[0]
    ProvisionalLine.objects.all().delete()
    with pytest.raises(DatabaseError, match="delete refused"):
        deleted(*named(use, name))


@pytest.mark.parametrize("name", ["team", "cluster"])
def test_the_refusal_says_why_and_keys_are_kept_too(month: Cluster, name: str) -> None:
    line = LedgerEntry.objects.filter(period=close_until_march(), team__isnull=False)[0]
    model, pk = named(line, name)
    told = f"{model._meta.db_table}: update refused, lines of charges name it"
    with pytest.raises(DatabaseError, match=told), transaction.atomic():
        model._base_manager.filter(pk=pk).update(id=-1)


def test_what_no_line_names_is_deleted(month: Cluster) -> None:
    close_until_march()
    team = Team.objects.create(slug="brief", name="Brief")
    cluster = Cluster.objects.create(slug="brief", name="Brief", kubeconfig_path="/nowhere")
    draft = RateVersion.objects.create(valid_from=LATER, currency="EUR")
    period = BillingPeriod.objects.create(
        month="2031-01", zone="UTC", starts_at=LATER, ends_at=LATER + timedelta(days=31),
        created_at=LATER, updated_at=LATER,
    )  # fmt: skip
    for one in (team, cluster, draft, period):
        assert deleted(type(one), one.pk) == 1


def test_the_models_protect_it_before_the_database_does(month: Cluster) -> None:
    line = LedgerEntry.objects.filter(period=close_until_march(), team__isnull=False)[0]
    with pytest.raises(ProtectedError):
        line.cluster.delete()


def test_an_open_period_goes_with_its_provisional_lines(month: Cluster) -> None:
    period = provide(march().pk, now=LATER)
    assert period.entries > 0
    period.delete()
    assert not ProvisionalLine.objects.filter(period_id=period.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_who_deletes_waits_for_the_close_and_sees_its_lines(settings: object) -> None:
    """The lines of a close that has not ended are seen by nobody else, and still count."""
    filled(settings)
    for period in keep_periods(LATER):
        if period.starts_at < march().starts_at:
            close(period.pk, by=None, reason=REASON, now=LATER)
    refused: list[str] = []

    def delete(pk: int) -> None:
        try:
            deleted(Team, pk)
        except DatabaseError as error:
            refused.append(str(error))
        finally:
            connection.close()

    with transaction.atomic():
        period = close(march().pk, by=None, reason=REASON, now=LATER)
        line = LedgerEntry.objects.filter(period=period, team__isnull=False)[0]
        thread = threading.Thread(target=delete, args=(line.team_id,))
        thread.start()
        time.sleep(0.5)
        assert thread.is_alive()
    thread.join()
    assert len(refused) == 1
    assert "accounts_team: delete refused, lines of charges name it" in refused[0]
