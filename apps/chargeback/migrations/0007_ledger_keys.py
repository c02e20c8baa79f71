"""Lines name clusters, teams, rate cards, prices and periods without foreign keys: PostgreSQL checks those row by row, which
took longer than all the rest of a close. What they kept is kept from the other side.

- What lines are made of is joined from tables whose keys are checked, so that adding lines needs no check. A cluster or a
  team that a line names is refused to be deleted; whoever deletes waits for who adds lines (one lock), and so sees them.
- Of a period lines are added by whoever has its row locked: who deletes it waits for that row.
- What is kept of a team's use beside the lines is written under the same lock: a key of it would be checked by the COMMIT,
  against a row that a waiting DELETE has locked already.
- Lines name published rate cards only, which `0003_frozen` keeps for good, with their prices."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

FORWARDS = """
CREATE FUNCTION chargeback_is_named() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    key text := TG_ARGV[0];
    named boolean;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.id = OLD.id THEN
        RETURN NEW;
    END IF;
    IF key <> 'period_id' THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('chargeback ledger', 0));
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM chargeback_ledgerentry WHERE %1$I = $1)
                        OR EXISTS (SELECT 1 FROM chargeback_provisionalline WHERE %1$I = $1)', key)
        INTO named USING OLD.id;
    IF NOT named AND key <> 'cluster_id' THEN
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM chargeback_teamuse WHERE %I = $1)', key) INTO named USING OLD.id;
    END IF;
    IF named THEN
        RAISE EXCEPTION '%: % refused, lines of charges name it', TG_TABLE_NAME, lower(TG_OP)
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;

CREATE TRIGGER chargeback_cluster_named BEFORE DELETE OR UPDATE OF id ON fleet_cluster
    FOR EACH ROW EXECUTE FUNCTION chargeback_is_named('cluster_id');
CREATE TRIGGER chargeback_team_named BEFORE DELETE OR UPDATE OF id ON accounts_team
    FOR EACH ROW EXECUTE FUNCTION chargeback_is_named('team_id');
CREATE TRIGGER chargeback_period_named BEFORE DELETE OR UPDATE OF id ON chargeback_billingperiod
    FOR EACH ROW EXECUTE FUNCTION chargeback_is_named('period_id');
"""
BACKWARDS = """
DROP TRIGGER chargeback_period_named ON chargeback_billingperiod;
DROP TRIGGER chargeback_team_named ON accounts_team;
DROP TRIGGER chargeback_cluster_named ON fleet_cluster;
DROP FUNCTION chargeback_is_named();
"""
NAMED = (
    ("cluster", "fleet.cluster", False),
    ("team", "accounts.team", True),
    ("version", "chargeback.rateversion", True),
    ("price", "chargeback.rateprice", True),
)


def without_key(line: str, name: str, to: str, *, null: bool = False, **how: object) -> migrations.AlterField:
    given = {"on_delete": django.db.models.deletion.PROTECT, "related_name": "+", **how}
    field = models.ForeignKey(to=to, null=null, db_constraint=False, db_index=False, **given)
    return migrations.AlterField(model_name=line, name=name, field=field)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_membership_labels"),
        ("chargeback", "0006_use_and_idle"),
        ("fleet", "0005_volcano_plugin"),
    ]

    operations = [
        migrations.RunSQL(FORWARDS, BACKWARDS),
        *(
            without_key(line, name, to, null=null)
            for line in ("ledgerentry", "provisionalline")
            for name, to, null in NAMED
        ),
        without_key("ledgerentry", "period", "chargeback.billingperiod", related_name="lines"),
        without_key(
            "provisionalline",
            "period",
            "chargeback.billingperiod",
            related_name="provisional",
            on_delete=django.db.models.deletion.CASCADE,
        ),
        without_key("teamuse", "team", "accounts.team", null=True),
        without_key(
            "teamuse",
            "period",
            "chargeback.billingperiod",
            related_name="use",
            on_delete=django.db.models.deletion.CASCADE,
        ),
    ]
