"""What each kind of error means and what to do about it, in words for /sources/ and the findings.

Input: an ErrorKind value, and what else the pull left; output: a translated sentence and a translated advice. Every
kind has both (a test keeps it so), a good pull that remarked something a sentence only; the raw message of the run is
shown beside them, never instead of them.
"""

from __future__ import annotations

from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from .models import ErrorKind

Text = str | Promise


class Advice(NamedTuple):
    """`sentence`: what happened; `action`: what a person can do."""

    sentence: Text
    action: Text


ADVICE: dict[str, Advice] = {
    ErrorKind.NONE: Advice("", ""),
    ErrorKind.UNREACHABLE: Advice(
        _("The address does not accept connections."),
        _("Check that the server runs and that this host may reach it."),
    ),
    ErrorKind.TIMEOUT: Advice(
        _("The server did not answer in time."),
        _("Check its load; if it is only slow, raise PORTAL_READ_TIMEOUT and PORTAL_COLLECT_INTERVAL."),
    ),
    ErrorKind.UNAUTHORIZED: Advice(
        _("The server does not know our credentials."),
        _("Renew the token or certificate in the cluster's kubeconfig file."),
    ),
    ErrorKind.FORBIDDEN: Advice(
        _("Our account may not read this."),
        _("Grant get, list and watch on the named resources to the portal's account."),
    ),
    ErrorKind.NOT_FOUND: Advice(
        _("The server does not serve this address although it lists it."),
        _("Check the API version and the URL; the next pull asks again."),
    ),
    ErrorKind.EXPIRED: Advice(
        _("The server dropped the version that we were reading, twice in a row."),
        _("Nothing to do unless it repeats: the next pull lists everything again."),
    ),
    ErrorKind.THROTTLED: Advice(
        _("The server asks us to slow down."),
        _("Raise PORTAL_COLLECT_INTERVAL or give the portal its own priority level."),
    ),
    ErrorKind.SERVER_ERROR: Advice(
        _("The server reported a fault of its own."),
        _("Look at the server's log; the next pull tries again."),
    ),
    ErrorKind.BAD_BODY: Advice(
        _("The answer was cut off or is not what the API promises."),
        _("Check proxies between the portal and the server; the next pull tries again."),
    ),
    ErrorKind.BAD_VALUES: Advice(
        _("Some of the answer could not be used and was set aside."),
        _("Look at the quarantined objects and the message; the rest was taken."),
    ),
    ErrorKind.BAD_CONFIG: Advice(
        _("The cluster is not set up correctly in the portal."),
        _("Correct the kubeconfig file, context or Prometheus URL of the cluster in the admin pages."),
    ),
    ErrorKind.CLOCK_AHEAD: Advice(
        _("The cluster's clock is ahead of ours."),
        _("Synchronise the clocks (NTP) of this host and of the cluster."),
    ),
    ErrorKind.STORE: Advice(
        _("The portal's database or message broker was not available."),
        _("Check PostgreSQL and Redis; the next pull tries again."),
    ),
    ErrorKind.INTERNAL: Advice(
        _("The portal itself failed."),
        _("Report the message with the worker's log of that time."),
    ),
}


# Values that no object holds are in no quarantine.
_VALUES_ONLY = Advice(
    _("Some of the answer could not be used, or it had nothing that the portal reads."),
    _("The message names the metric and a device: check that exporter; the rest was taken."),
)
_REMARKED = Advice(_("All was read; some values are blank at the source itself."), "")


def advice_for(kind: str, *, quarantined: bool = True, remarked: bool = False) -> Advice:
    """The words for an error kind; an unknown one reads as a fault of the portal. `quarantined`: objects were set
    aside; `remarked`: the pull has a message."""
    if kind == ErrorKind.NONE and remarked:
        return _REMARKED
    if kind == ErrorKind.BAD_VALUES and not quarantined:
        return _VALUES_ONLY
    return ADVICE.get(kind, ADVICE[ErrorKind.INTERNAL])
