"""One owner at a time: refuse two bindings of the same thing whose half-open periods share an instant.

An exclusion constraint would need the btree_gist extension, which a managed server may not offer. The lock is
taken per thing, so that two sessions that bind different things never wait for each other. It is taken before
the check reads, and the check reads with a fresh snapshot, which only READ COMMITTED gives; any other isolation
level is refused rather than trusted. AFTER ROW, so that one statement may move several periods at once.
"""

from django.db import migrations

CREATE = """
CREATE FUNCTION fleet_binding_lock(cluster_id bigint, kind text, namespace text, name text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock(hashtextextended(
        jsonb_build_array('fleet_teambinding', cluster_id, kind, namespace, name)::text, 0));
$$;
CREATE FUNCTION fleet_binding_one_owner() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'team bindings are written under READ COMMITTED only'
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    PERFORM fleet_binding_lock(NEW.cluster_id, NEW.kind, NEW.namespace, NEW.name);
    IF EXISTS (
        SELECT 1 FROM fleet_teambinding other
        WHERE other.cluster_id = NEW.cluster_id AND other.kind = NEW.kind
          AND other.namespace = NEW.namespace AND other.name = NEW.name AND other.id <> NEW.id
          AND other.valid_from < COALESCE(NEW.valid_to, 'infinity')
          AND COALESCE(other.valid_to, 'infinity') > NEW.valid_from
    ) THEN
        RAISE EXCEPTION 'two team bindings of % % in cluster % overlap',
            NEW.kind, concat_ws('/', NULLIF(NEW.namespace, ''), NEW.name), NEW.cluster_id
            USING ERRCODE = 'exclusion_violation', CONSTRAINT = 'binding_one_owner', TABLE = 'fleet_teambinding';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER binding_one_owner
    AFTER INSERT OR UPDATE OF cluster_id, kind, namespace, name, valid_from, valid_to ON fleet_teambinding
    FOR EACH ROW EXECUTE FUNCTION fleet_binding_one_owner();
"""

DROP = """
DROP TRIGGER binding_one_owner ON fleet_teambinding;
DROP FUNCTION fleet_binding_one_owner();
DROP FUNCTION fleet_binding_lock(bigint, text, text, text);
"""


class Migration(migrations.Migration):
    dependencies = [("fleet", "0002_binding_periods")]
    operations = [migrations.RunSQL(CREATE, DROP)]
