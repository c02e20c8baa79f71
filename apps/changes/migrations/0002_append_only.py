"""The audit trail takes nothing back: UPDATE and DELETE are refused by the database itself."""

from __future__ import annotations

from django.db import migrations

FORWARDS = """
CREATE FUNCTION changes_audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is append-only: % of entry % refused', lower(TG_OP), OLD.sequence
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER changes_audit_append_only BEFORE UPDATE OR DELETE ON changes_auditentry
    FOR EACH ROW EXECUTE FUNCTION changes_audit_is_append_only();
"""
BACKWARDS = """
DROP TRIGGER changes_audit_append_only ON changes_auditentry;
DROP FUNCTION changes_audit_is_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("changes", "0001_initial")]

    operations = [migrations.RunSQL(FORWARDS, BACKWARDS)]
