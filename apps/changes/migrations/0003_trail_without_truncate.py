"""The trail cannot be emptied either; an entry may name the command that it came from."""

from __future__ import annotations

from django.db import migrations, models

FORWARDS = """
CREATE FUNCTION changes_audit_is_never_emptied() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is append-only: truncate refused' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER changes_audit_never_emptied BEFORE TRUNCATE ON changes_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION changes_audit_is_never_emptied();
"""
BACKWARDS = """
DROP TRIGGER changes_audit_never_emptied ON changes_auditentry;
DROP FUNCTION changes_audit_is_never_emptied();
"""


class Migration(migrations.Migration):
    dependencies = [("changes", "0002_append_only")]

    operations = [
        migrations.RunSQL(FORWARDS, BACKWARDS),
        migrations.AlterField(
            model_name="auditentry",
            name="address",
            field=models.CharField(
                default="",
                help_text="a network address, or the command that was run; empty: the portal's own worker",
                max_length=64,
            ),
        ),
    ]
