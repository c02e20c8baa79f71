"""Quota change requests: draft → checked → approved → applying → applied → observed, and their audit trail.

Nothing is changed on a cluster except through here. The portal only reads so far, so this package holds no model
and no service; it stands in the order of the layers so that whatever asks for a change lands above chargeback and
below the pages."""
