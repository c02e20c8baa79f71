"""What clusters said. Input: the collectors' rows; output: tables that every derived fact is computed from.

Invariants
- A current object is keyed by (cluster, uid); names are reused, uids are not. A deleted object keeps its last
  state with `gone_at` set until its retention ends.
- `observed_at` is the portal's clock, when the present content was first seen; times that came from the cluster
  keep their own names (`created_at`, `reserved_at`, …).
- Quantities inside JSON are strings of plain digits in base units ("8", "0.5", "72333918208"), already parsed by
  `apps.core.quantity`; an absent key means "not said", never zero.
- No index on the cluster alone: each table has one that begins with it, and a planner that has not heard of a new
  cluster yet would prefer the shorter one and read all of its rows for each.
- Facts reference objects by uid, not by foreign key, so that they outlive them. Fast-moving tables are
  range-partitioned by time (`apps.core.partitions`); Django sees `id` as their key, the database (time, id).
"""

# ruff: noqa: DJ008  facts are shown by their columns, never by str()
from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.fleet.models import Cluster


class Source(models.TextChoices):
    """One pull: what a collector fetches from one cluster in one task."""

    NODES = "nodes", _("Nodes")
    PODS = "pods", _("Pods")
    EVENTS = "events", _("Events")
    KUEUE = "kueue", _("Kueue")
    VOLCANO = "volcano", _("Volcano")
    DEVICES = "devices", _("Device objects")
    DCGM = "dcgm", _("Prometheus / DCGM")


class Outcome(models.TextChoices):
    OK = "ok", _("ok")
    PARTIAL = "partial", _("partial")
    FAILED = "failed", _("failed")
    SKIPPED = "skipped", _("skipped")


class Presence(models.TextChoices):
    """Whether a source exists in the cluster at all. A cluster without Kueue is a normal case."""

    UNKNOWN = "unknown", _("not collected yet")
    INSTALLED = "installed", _("installed")
    ABSENT = "absent", _("not installed")


class ErrorKind(models.TextChoices):
    """Why a pull did not end well; each has a sentence with what to do on /sources/."""

    NONE = "", ""
    UNREACHABLE = "unreachable", _("unreachable")
    TIMEOUT = "timeout", _("timed out")
    UNAUTHORIZED = "unauthorized", _("not authenticated (401)")
    FORBIDDEN = "forbidden", _("not allowed (403)")
    NOT_FOUND = "not_found", _("not found (404)")
    EXPIRED = "expired", _("version expired (410)")
    THROTTLED = "throttled", _("throttled (429)")
    SERVER_ERROR = "server_error", _("server error (5xx)")
    BAD_BODY = "bad_body", _("unreadable answer")
    BAD_VALUES = "bad_values", _("unusable values")
    BAD_CONFIG = "bad_config", _("bad configuration")
    CLOCK_AHEAD = "clock_ahead", _("the cluster's clock is ahead")
    STORE = "store", _("database or broker unavailable")
    INTERNAL = "internal", _("fault in the portal")


class ObservedObject(models.Model):
    """Base of the current-object tables: one Kubernetes object as last seen."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    uid = models.CharField(max_length=128)
    namespace = models.CharField(max_length=63, blank=True, default="")
    name = models.CharField(max_length=253)
    resource_version = models.CharField(max_length=64, blank=True, default="")
    labels = models.JSONField(default=dict)
    created_at = models.DateTimeField(null=True)
    deleting_since = models.DateTimeField(null=True, help_text="metadata.deletionTimestamp")
    first_seen_at = models.DateTimeField()
    observed_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


class Node(ObservedObject):
    """A node. `taints`: [{key, value, effect}]; `conditions`: {type: {status, reason, message, since}};
    `annotations`: only those that the device registry reads; capacity/allocatable: {resource: quantity}; `info`:
    {kernel, os, runtime, kubelet, architecture} of status.nodeInfo, absent keys left out."""

    annotations = models.JSONField(default=dict)
    info = models.JSONField(default=dict, db_default={})
    taints = models.JSONField(default=list)
    conditions = models.JSONField(default=dict)
    capacity = models.JSONField(default=dict)
    allocatable = models.JSONField(default=dict)
    unschedulable = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "uid"], name="node_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["cluster", "name"], name="node_by_name"),
            # What changed since a moment, for whoever keeps something computed from nodes.
            models.Index(fields=["cluster", "observed_at"], name="node_by_change"),
            models.Index(
                fields=["cluster", "gone_at"], name="node_by_end", condition=models.Q(gone_at__isnull=False)
            ),
        ]


class Pod(ObservedObject):
    """A pod. `requests`: effective requests {resource: quantity} (max of init, sum of containers and sidecars,
    plus overhead); `conditions`: {type: {status, reason, message, since}}; `devices` counts accelerator units of
    any kind in `requests` and serves only to find GPU pods, never as a total across kinds. `claims`: the
    ResourceClaims the pod uses, [{claim, resources}]; `resources` names the extended resources of `requests` that
    this claim serves (status.extendedResourceClaimStatus), [] for an ordinary claim. `placement`: of a pod that has no
    node yet, on which nodes it may run: {node_selector, affinity: required nodeSelectorTerms, tolerations}, absent keys
    left out."""

    node_name = models.CharField(max_length=253, blank=True, default="")
    phase = models.CharField(max_length=20, blank=True, default="")
    reason = models.CharField(max_length=120, blank=True, default="")
    message = models.TextField(blank=True, default="")
    owner_kind = models.CharField(max_length=80, blank=True, default="")
    owner_name = models.CharField(max_length=253, blank=True, default="")
    owner_uid = models.CharField(max_length=128, blank=True, default="")
    queue_name = models.CharField(
        max_length=253, blank=True, default="", help_text="LocalQueue or Volcano queue"
    )
    pod_group = models.CharField(max_length=253, blank=True, default="")
    scheduler = models.CharField(max_length=120, blank=True, default="")
    requests = models.JSONField(default=dict)
    devices = models.DecimalField(max_digits=20, decimal_places=3, default=0)
    claims = models.JSONField(default=list, db_default=[])
    conditions = models.JSONField(default=dict)
    scheduling_gates = models.JSONField(default=list)
    placement = models.JSONField(default=dict, db_default={})
    bound_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "uid"], name="pod_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["cluster", "node_name"], name="pod_by_node"),
            models.Index(fields=["cluster", "namespace", "name"], name="pod_by_name"),
            # What changed since a moment, for whoever keeps something computed from pods.
            models.Index(fields=["cluster", "observed_at"], name="pod_by_change"),
            models.Index(
                fields=["cluster", "gone_at"], name="pod_by_end", condition=models.Q(gone_at__isnull=False)
            ),
            models.Index(
                fields=["cluster", "phase"],
                name="pod_live_gpu",
                condition=models.Q(gone_at=None, devices__gt=0),
            ),
        ]


class Workload(ObservedObject):
    """A piece of queued work: a Kueue Workload or a Volcano PodGroup, in one shape.

    queue_name     LocalQueue (Workload, with `namespace`) or Volcano queue (PodGroup)
    cluster_queue  only when quota is reserved (status.admission); waiting work finds it through its LocalQueue
    pod_sets       [{name, count, min_count, requests: {resource: quantity per pod}}], and where it is not empty
                   node_selector, affinity (required nodeSelectorTerms as served), tolerations, topology (true),
                   claims (true), elastic (true)
    requests       {resource: quantity} over all pods: what is asked for
    usage          [{flavor, resource, quantity}] of the reservation, reclaimed pods already taken off; [] when none
    conditions     {type: {status, reason, message, since}}
    checks         [{name, state, message, since, retry_after_seconds}]
    past_run_seconds  how long it was admitted before the present admission, as the cluster counts; NULL: not said
    slice_name     of an elastic job's slice: the same for all that follow each other; annotation, or label
    state/reason   derived by the parser: see State; reason is the cluster's own token, message its own text
    """

    class Kind(models.TextChoices):
        WORKLOAD = "Workload", "Workload"
        POD_GROUP = "PodGroup", "PodGroup"

    class State(models.TextChoices):
        PENDING = "pending", _("waiting")
        RESERVED = "reserved", _("quota reserved")
        ADMITTED = "admitted", _("admitted")
        FINISHED = "finished", _("finished")
        DEACTIVATED = "deactivated", _("deactivated")

    kind = models.CharField(max_length=20, choices=Kind.choices)
    state = models.CharField(max_length=20, choices=State.choices)
    reason = models.CharField(max_length=120, blank=True, default="")
    message = models.TextField(blank=True, default="")
    queue_name = models.CharField(max_length=253, blank=True, default="")
    cluster_queue = models.CharField(max_length=253, blank=True, default="")
    priority = models.IntegerField(null=True)
    priority_class = models.CharField(max_length=253, blank=True, default="")
    owner_kind = models.CharField(max_length=80, blank=True, default="")
    owner_name = models.CharField(max_length=253, blank=True, default="")
    owner_uid = models.CharField(max_length=128, blank=True, default="")
    active = models.BooleanField(default=True)
    pod_sets = models.JSONField(default=list)
    requests = models.JSONField(default=dict)
    usage = models.JSONField(default=list)
    conditions = models.JSONField(default=dict)
    checks = models.JSONField(default=list)
    requeue_at = models.DateTimeField(null=True)
    evictions = models.IntegerField(default=0)
    queued_at = models.DateTimeField(null=True, help_text="start of the present wait by Kueue's own rule")
    reserved_at = models.DateTimeField(null=True)
    admitted_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    past_run_seconds = models.IntegerField(null=True)
    slice_name = models.CharField(max_length=253, blank=True, default="", db_default="")

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "uid"], name="workload_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["cluster", "state", "cluster_queue"], name="workload_by_cluster_queue"),
            models.Index(fields=["cluster", "namespace", "queue_name", "state"], name="workload_by_queue"),
            models.Index(fields=["uid"], name="workload_by_uid"),
            # What changed since a moment, for whoever keeps something computed from work.
            models.Index(fields=["cluster", "observed_at"], name="workload_by_change"),
            models.Index(
                fields=["cluster", "gone_at"],
                name="workload_by_end",
                condition=models.Q(gone_at__isnull=False),
            ),
        ]


RAW_KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "AdmissionCheck", "VolcanoQueue")


class ClusterObject(ObservedObject):
    """Every other kind, generic: ClusterQueue, Cohort, LocalQueue, ResourceFlavor, AdmissionCheck, Topology,
    WorkloadPriorityClass (Kueue), Queue (Volcano, kind "VolcanoQueue"), Job (Volcano, kind "VolcanoJob"), HyperNode
    (Volcano), the ConfigMap that Volcano's scheduler is configured with (kind "VolcanoScheduler"), Namespace (only name
    and labels count), DeviceClass, ResourceSlice, ResourceClaim, DeviceTaintRule (DRA), ClusterPolicy (GPU operator).

    `spec` and `status` hold the parser's normalised shape, the same for every served API version
    (worker/parsers/kueue.py, volcano.py and devices.py document it per kind). `raw` is the object as served, without
    managedFields and resourceVersion, of the kinds that have pages (RAW_KINDS); {} of all others."""

    kind = models.CharField(max_length=40)
    spec = models.JSONField(default=dict)
    status = models.JSONField(default=dict)
    raw = models.JSONField(default=dict, db_default={})

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "uid"], name="object_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["cluster", "kind", "namespace", "name"], name="object_by_name"),
            models.Index(fields=["cluster", "kind", "observed_at"], name="object_by_change"),
            models.Index(
                fields=["cluster", "kind", "gone_at"],
                name="object_by_end",
                condition=models.Q(gone_at__isnull=False),
            ),
        ]


class QueuePosition(models.Model):
    """Where a waiting workload stands, as Kueue's visibility API said at `observed_at`; 0 is the head. Whatever the
    API named in its newest answer for the ClusterQueue, and nothing else. A position is no promise: it follows
    priority and, with fair sharing, what others hold."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    cluster_queue = models.CharField(max_length=253)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    position = models.IntegerField(help_text="in the ClusterQueue")
    local_position = models.IntegerField(help_text="in the LocalQueue")
    observed_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "cluster_queue", "namespace", "name"], name="queue_position_once"
            )
        ]


class StateSpan(models.Model):
    """One uninterrupted stretch of a Workload or PodGroup in one (state, reason, message class), half-open.

    Our own observation: `lastTransitionTime` moves only when a status flips, so time per reason comes from here.
    `queue`: the ClusterQueue or Volcano queue, "" when it was not known. `usage` as in Workload at that time;
    `requests` what was asked. `requeue_at`: until when the cluster itself put off queueing it again, as it was seen last
    in a stretch of waiting; NULL: not at all. `ended_at` NULL while it lasts."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    kind = models.CharField(max_length=20)
    uid = models.CharField(max_length=128)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    queue_name = models.CharField(max_length=253, blank=True)
    queue = models.CharField(max_length=253, blank=True)
    state = models.CharField(max_length=20)
    reason = models.CharField(max_length=120, blank=True)
    message = models.TextField(blank=True)
    requests = models.JSONField(default=dict)
    usage = models.JSONField(default=list)
    requeue_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "uid"], condition=models.Q(ended_at=None), name="span_one_open"
            )
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["cluster", "uid", "started_at"], name="span_by_object"),
            models.Index(fields=["started_at", "ended_at"], name="span_by_time"),
        ]


class PartitionedFact(models.Model):
    """Base of the range-partitioned tables: made by SQL in the migrations, so `managed` is False."""

    id = models.BigAutoField(primary_key=True)

    class Meta:
        abstract = True


class Transition(PartitionedFact):
    """Something that changed between two observations, partitioned by `observed_at`.
    facet: "state" (workloads), "ready" | "cordon" | "devices" (nodes), "active" (queues), "phase" (pods)."""

    cluster = models.ForeignKey(Cluster, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    observed_at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=40)
    uid = models.CharField(max_length=128)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    facet = models.CharField(max_length=20)
    from_value = models.CharField(max_length=120, blank=True)
    to_value = models.CharField(max_length=120, blank=True)
    reason = models.CharField(max_length=120, blank=True)
    message = models.TextField(blank=True)

    class Meta:
        managed = False
        db_table = "observations_transition"


class Event(PartitionedFact):
    """A core/v1 Event, stored when seen because the cluster forgets it in an hour; Normal ones too.
    Partitioned by `created_at` (the Event object's creation); unique on (cluster, uid, created_at)."""

    cluster = models.ForeignKey(Cluster, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    created_at = models.DateTimeField()
    uid = models.CharField(max_length=128)
    namespace = models.CharField(max_length=63, blank=True)
    object_kind = models.CharField(max_length=80, blank=True)
    object_namespace = models.CharField(max_length=63, blank=True)
    object_name = models.CharField(max_length=253, blank=True)
    object_uid = models.CharField(max_length=128, blank=True)
    type = models.CharField(max_length=20, blank=True)
    reason = models.CharField(max_length=128, blank=True)
    message = models.TextField(blank=True)
    component = models.CharField(max_length=128, blank=True)
    count = models.IntegerField(default=1)
    first_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField()

    class Meta:
        managed = False
        db_table = "observations_event"


class DeviceSample(PartitionedFact):
    """One device (or MIG instance) at one instant, partitioned by `sampled_at`; unique on
    (cluster, device, instance, sampled_at). NULL = the exporter did not say; never 0 for unknown.

    device: vendor UUID of the card; instance: MIG GPU instance id, "" for a whole card; profile: the MIG profile as
    the exporter names it; vendor: of the device registry; driver: version, "" when the exporter does not say.
    utilisation_ratio 0…1, from `utilisation_source` ("sm_active", "gr_engine_active", "gpu_util", …).
    power_watts is board power: present only on one row per card and instant.
    `namespace`/`pod` name the one pod on the device. Where several share it they are empty and `shares` holds
    [{namespace, pod, ratio}] with a ratio only where the exporter measured that pod by itself; `attribution` says
    how pods were told: "" (nobody named), "whole" (one pod has the device), "per_process" (measured per pod),
    "copies" (the device's value repeated per pod), "flips" (one label for several pods in turn)."""

    cluster = models.ForeignKey(Cluster, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    sampled_at = models.DateTimeField()
    device = models.CharField(max_length=128)
    instance = models.CharField(max_length=32, blank=True, default="")
    node_name = models.CharField(max_length=253, blank=True)
    model = models.CharField(max_length=120, blank=True)
    namespace = models.CharField(max_length=63, blank=True)
    pod = models.CharField(max_length=253, blank=True)
    utilisation_ratio = models.DecimalField(max_digits=6, decimal_places=4, null=True)
    utilisation_source = models.CharField(max_length=30, blank=True)
    memory_used_bytes = models.BigIntegerField(null=True)
    memory_total_bytes = models.BigIntegerField(null=True)
    power_watts = models.DecimalField(max_digits=9, decimal_places=2, null=True)
    xid = models.IntegerField(null=True)
    vendor = models.CharField(max_length=30, blank=True)
    profile = models.CharField(max_length=40, blank=True)
    driver = models.CharField(max_length=60, blank=True)
    attribution = models.CharField(max_length=20, blank=True)
    shares = models.JSONField(default=list)

    class Meta:
        managed = False
        db_table = "observations_devicesample"


class NodeCards(models.Model):
    """The distinct cards and the models (sorted) that telemetry saw last on a node; see cards.py. `seen_at`: when, at
    most an hour too early while it goes on seeing them; `silent`: the last pull did not mention the node."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    node_name = models.CharField(max_length=253)
    cards = models.IntegerField()
    model_names = models.JSONField()
    seen_at = models.DateTimeField()
    silent = models.BooleanField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "node_name"], name="node_cards_once")
        ]


class CollectionRun(PartitionedFact):
    """One pull of one source from one cluster, partitioned by `started_at`. The log; SourceState is its summary.
    `told_from`: of what pods and events told for the first time, the earliest moment; NULL: nothing new was told."""

    cluster = models.ForeignKey(Cluster, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    source = models.CharField(max_length=20, choices=Source.choices)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    outcome = models.CharField(max_length=10, choices=Outcome.choices)
    mode = models.CharField(max_length=10, blank=True, help_text="list, watch, mixed or query")
    objects_seen = models.IntegerField(default=0)
    rows_written = models.IntegerField(default=0)
    rows_gone = models.IntegerField(default=0)
    quarantined = models.IntegerField(default=0)
    bytes_read = models.BigIntegerField(default=0)
    resource_version = models.CharField(max_length=64, blank=True, default="")
    error_kind = models.CharField(max_length=20, choices=ErrorKind.choices, blank=True, default="")
    error = models.TextField(blank=True, default="")
    told_from = models.DateTimeField(null=True)

    class Meta:
        managed = False
        db_table = "observations_collectionrun"


class SourceState(models.Model):
    """Where one source of one cluster stands: its last run, its resume points, and its lease.

    `cursors`: {kind: {"resource_version": …, "api_version": …, "listed_at": …}}; a kind without a cursor is
    listed in full. The lease keeps two workers from pulling the same source at once and survives a crash by
    expiring."""

    cluster = models.ForeignKey(
        Cluster, on_delete=models.CASCADE, db_index=False, related_name="source_states"
    )
    source = models.CharField(max_length=20, choices=Source.choices)
    presence = models.CharField(max_length=12, choices=Presence.choices, default=Presence.UNKNOWN)
    cursors = models.JSONField(default=dict)
    last_run_at = models.DateTimeField(null=True, help_text="end of the last run that was not skipped")
    last_ok_at = models.DateTimeField(null=True, help_text="end of the last run that was ok or partial")
    last_outcome = models.CharField(max_length=10, choices=Outcome.choices, blank=True, default="")
    error_kind = models.CharField(max_length=20, choices=ErrorKind.choices, blank=True, default="")
    error = models.TextField(blank=True, default="")
    failures = models.IntegerField(default=0, help_text="failed runs since the last good one")
    lease_token = models.CharField(max_length=64, blank=True, default="")
    lease_until = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "source"], name="source_state_once")
        ]


class Quarantine(models.Model):
    """An object that could not be parsed: its raw bytes, why, and how often. Cleared when it parses again."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    source = models.CharField(max_length=20, choices=Source.choices)
    kind = models.CharField(max_length=40)
    key = models.CharField(max_length=400, help_text="uid, else namespace/name, else a hash of the bytes")
    name = models.CharField(max_length=320, blank=True)
    error = models.TextField()
    raw = models.BinaryField(help_text="the first 64 KiB as received")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    times_seen = models.IntegerField(default=1)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "source", "kind", "key"], name="quarantine_once")
        ]
