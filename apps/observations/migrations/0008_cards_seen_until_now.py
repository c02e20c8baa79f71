"""What telemetry saw last before the upgrade: the minutes before each cluster's last good pull, no more of the samples.

A pull between the two migrations may have been faster: its rows stay."""

from django.db import migrations

KEEP = """
INSERT INTO observations_nodecards (cluster_id, node_name, cards, model_names, seen_at, silent)
SELECT d.cluster_id, d.node_name, count(DISTINCT d.device),
  coalesce(jsonb_agg(DISTINCT d.model::text) FILTER (WHERE d.model <> ''), '[]'), max(d.sampled_at), false
FROM observations_sourcestate s JOIN observations_devicesample d ON d.cluster_id = s.cluster_id
  AND d.sampled_at > s.last_ok_at - interval '4 minutes' AND d.sampled_at <= s.last_ok_at
WHERE s.source = 'dcgm' AND s.last_ok_at IS NOT NULL AND d.node_name <> ''
GROUP BY 1, 2 ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):
    dependencies = [("observations", "0007_cards_seen_last")]

    operations = [migrations.RunSQL(KEEP, migrations.RunSQL.noop)]
