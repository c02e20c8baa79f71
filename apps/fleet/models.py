"""What people maintain about the fleet: clusters, which team owns what in them, and platform reserves."""

from __future__ import annotations

from datetime import UTC
from typing import ClassVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Team
from apps.core.gpu import MODE_LABELS
from apps.core.label_selector import SelectorError, parse_selector


class Cluster(models.Model):
    """A Kubernetes cluster and the Prometheus that scrapes its GPUs. Credentials stay in files, never in rows."""

    slug = models.SlugField(_("slug"), max_length=60, unique=True)
    name = models.CharField(_("name"), max_length=120)
    kubeconfig_path = models.CharField(_("kubeconfig file"), max_length=500)
    kube_context = models.CharField(_("kubeconfig context"), max_length=200, blank=True)
    prometheus_url = models.URLField(_("Prometheus URL"), max_length=500, blank=True)
    enabled = models.BooleanField(_("collected"), default=True)
    is_demo = models.BooleanField(_("demo data"), default=False)
    volcano_plugin = models.CharField(
        _("Volcano queue plugin"),
        max_length=20,
        blank=True,
        default="",
        db_default="",
        choices=[("proportion", "proportion"), ("capacity", "capacity")],
        help_text=_("Which plugin decides what a Volcano queue deserves. Empty: told from the cluster."),
    )

    class Meta:
        verbose_name = _("cluster")
        verbose_name_plural = _("clusters")
        ordering: ClassVar[list[str]] = ["name", "slug"]

    def __str__(self) -> str:
        return self.name


class TeamBinding(models.Model):
    """`team` owns this namespace or queue of `cluster` during the half-open period [valid_from, valid_to).

    Effective-dated, so that last month's usage stays with the team of last month. One owner at a time:
    a trigger in the database refuses overlapping periods for the same thing.
    """

    class Kind(models.TextChoices):
        NAMESPACE = "namespace", _("Namespace")
        LOCAL_QUEUE = "local_queue", _("LocalQueue")
        CLUSTER_QUEUE = "cluster_queue", _("ClusterQueue")
        VOLCANO_QUEUE = "volcano_queue", _("Volcano queue")

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="bindings", verbose_name=_("team"))
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="bindings", verbose_name=_("cluster")
    )
    kind = models.CharField(_("kind"), max_length=20, choices=Kind.choices)
    namespace = models.CharField(
        _("namespace"),
        max_length=63,
        blank=True,
        help_text=_("Only for a LocalQueue: the namespace it lies in."),
    )
    name = models.CharField(_("name"), max_length=253)
    valid_from = models.DateTimeField(_("valid from"), default=timezone.now)
    valid_to = models.DateTimeField(_("valid to"), null=True, blank=True)

    # Set by whoever asks to end the present owner's binding in the same step.
    takes_over = False

    class Meta:
        verbose_name = _("team binding")
        verbose_name_plural = _("team bindings")
        ordering: ClassVar[list[str]] = ["cluster", "kind", "namespace", "name", "valid_from"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")),
                name="binding_period_forward",
                violation_error_message=_("The period ends before it starts."),
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["cluster", "kind", "namespace", "name", "valid_from"], name="binding_by_thing"
            ),
        ]

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.team}: {self.get_kind_display()} {where}"

    def clean(self) -> None:
        if self.kind == self.Kind.LOCAL_QUEUE and not self.namespace:
            raise ValidationError({"namespace": _("A LocalQueue lies in a namespace: name it.")})
        if self.kind != self.Kind.LOCAL_QUEUE and self.namespace:
            raise ValidationError({"namespace": _("Only a LocalQueue takes a namespace here.")})
        if not (self.cluster_id and self.valid_from):
            return
        others = self.overlapping()
        if self.takes_over:
            others = others.filter(valid_from__gte=self.valid_from)
        if other := others.first():
            # Of a stored binding only the end moves.
            raise ValidationError({"valid_to" if self.pk else "valid_from": other.taken_error()})

    def in_the_way_since_earlier(self) -> models.QuerySet[TeamBinding]:
        """The overlapping binding that was in force before this one starts: what a take-over ends."""
        return self.overlapping().filter(valid_from__lt=self.valid_from)

    def overlapping(self) -> models.QuerySet[TeamBinding]:
        """Other bindings of the same thing whose period shares an instant with this one's."""
        found = TeamBinding.objects.filter(
            cluster_id=self.cluster_id, kind=self.kind, namespace=self.namespace, name=self.name
        ).exclude(pk=self.pk)
        if self.valid_to is not None:
            found = found.filter(valid_from__lt=self.valid_to)
        return (
            found.filter(Q(valid_to__isnull=True) | Q(valid_to__gt=self.valid_from))
            .select_related("team")
            .order_by("valid_from")
        )

    def taken_error(self) -> ValidationError:
        """What to tell somebody who asks for a period that this binding already covers."""
        values = {"team": self.team.name, "start": f"{self.valid_from.astimezone(UTC):%Y-%m-%d %H:%M} UTC"}
        if self.valid_to is None:
            return ValidationError(
                _("Team %(team)s owns this from %(start)s on: end that binding first."), "overlap", values
            )
        values["end"] = f"{self.valid_to.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return ValidationError(
            _("Team %(team)s owns this from %(start)s to %(end)s: the periods may touch, not overlap."),
            "overlap",
            values,
        )


class Reserve(models.Model):
    """Cards that the platform keeps back (spares, tests) during [valid_from, valid_to): `devices` of the cards that
    are selected, all of them when it is NULL. Selected are the cards of the nodes whose labels match `selector`
    ("" is every node), of one `model` and one `sharing_mode` where these are named.

    Effective-dated: a stored reserve only gets an end; another size is another reserve (services.py)."""

    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="reserves", verbose_name=_("cluster")
    )
    selector = models.CharField(
        _("node selector"),
        max_length=1000,
        blank=True,
        default="",
        db_default="",
        help_text=_(
            "Labels of nodes as kubectl takes them: pool=infer,zone in (a,b),!spot. Empty: every node."
        ),
    )
    model = models.CharField(
        _("device model"),
        max_length=120,
        blank=True,
        default="",
        db_default="",
        help_text=_("As a label or this portal names it. Empty: every model."),
    )
    sharing_mode = models.CharField(
        _("sharing mode"),
        max_length=20,
        blank=True,
        default="",
        db_default="",
        help_text=_("Empty: every mode."),
    )
    devices = models.PositiveIntegerField(
        _("cards"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Whole cards. Empty: all that are selected, new nodes included."),
    )
    reason = models.CharField(_("reason"), max_length=300)
    valid_from = models.DateTimeField(_("valid from"), default=timezone.now)
    valid_to = models.DateTimeField(_("valid to"), null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="+",
        verbose_name=_("created by"),
    )
    ended_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="+",
        verbose_name=_("ended by"),
    )

    class Meta:
        verbose_name = _("platform reserve")
        verbose_name_plural = _("platform reserves")
        ordering: ClassVar[list[str]] = ["cluster", "valid_from", "id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")),
                name="reserve_period_forward",
                violation_error_message=_("The period ends before it starts."),
            ),
        ]

    def __str__(self) -> str:
        cards = _("all") if self.devices is None else self.devices
        named = ", ".join(part for part in (self.model, str(self.sharing_mode), self.selector) if part)
        what = named or _("any card")
        return f"{self.cluster}: {cards} × {what}"

    def clean(self) -> None:
        try:
            parse_selector(self.selector)
        except SelectorError as error:
            raise ValidationError({"selector": _selector_error(error)}) from error
        if self.sharing_mode and self.sharing_mode not in MODE_LABELS:
            raise ValidationError({"sharing_mode": _("There is no sharing mode of this name.")})


def _selector_error(error: SelectorError) -> ValidationError:
    sentences = {
        "term": _("This is no requirement: “%(part)s”. Write key, !key, key=value or key in (a,b)."),
        "key": _("“%(part)s” is no label key."),
        "value": _("“%(part)s” is no label value."),
        "number": _("“%(part)s” compares with something that is no whole number."),
    }
    return ValidationError(sentences[error.code], error.code, {"part": error.part})
