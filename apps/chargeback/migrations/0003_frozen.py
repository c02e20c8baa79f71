"""What is published or closed is refused by the database itself to be changed: lines of the ledger always, a closed period,
a published rate card and its prices."""

from __future__ import annotations

from django.db import migrations

FORWARDS = """
CREATE FUNCTION chargeback_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%: % refused, what is billed or published never changes', TG_TABLE_NAME, lower(TG_OP)
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER chargeback_ledger_frozen BEFORE UPDATE OR DELETE ON chargeback_ledgerentry
    FOR EACH ROW EXECUTE FUNCTION chargeback_is_frozen();
CREATE TRIGGER chargeback_period_frozen BEFORE UPDATE OR DELETE ON chargeback_billingperiod
    FOR EACH ROW WHEN (OLD.state = 'closed') EXECUTE FUNCTION chargeback_is_frozen();
CREATE TRIGGER chargeback_version_frozen BEFORE UPDATE OR DELETE ON chargeback_rateversion
    FOR EACH ROW WHEN (OLD.state = 'published') EXECUTE FUNCTION chargeback_is_frozen();

CREATE FUNCTION chargeback_price_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM chargeback_rateversion v WHERE v.state = 'published'
               AND v.id IN (CASE WHEN TG_OP = 'INSERT' THEN NULL ELSE OLD.version_id END,
                            CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE NEW.version_id END)) THEN
        RAISE EXCEPTION 'a price of a published rate card: % refused, make a new version', lower(TG_OP)
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER chargeback_price_frozen BEFORE INSERT OR UPDATE OR DELETE ON chargeback_rateprice
    FOR EACH ROW EXECUTE FUNCTION chargeback_price_is_frozen();
"""
BACKWARDS = """
DROP TRIGGER chargeback_price_frozen ON chargeback_rateprice;
DROP FUNCTION chargeback_price_is_frozen();
DROP TRIGGER chargeback_version_frozen ON chargeback_rateversion;
DROP TRIGGER chargeback_period_frozen ON chargeback_billingperiod;
DROP TRIGGER chargeback_ledger_frozen ON chargeback_ledgerentry;
DROP FUNCTION chargeback_is_frozen();
"""


class Migration(migrations.Migration):
    dependencies = [("chargeback", "0002_ledger")]

    operations = [migrations.RunSQL(FORWARDS, BACKWARDS)]
