"""Addresses of the REST interface, version 1. Every address ends with a slash."""

from django.urls import path, re_path

from apps.api.admission_failures import AdmissionFailuresView
from apps.api.audit import AuditView
from apps.api.billing_periods import BillingPeriodsView, BillingPeriodView, ClosePeriodView
from apps.api.blocked import BlockedHoursView, BlockedWorkView, OutcomesView
from apps.api.budgets import BudgetsView
from apps.api.capacity import CapacityView
from apps.api.charges import ChargesView
from apps.api.clusters import ClustersView, ClusterView
from apps.api.devices import DevicesView
from apps.api.docs import SchemaView, docs
from apps.api.explanation import ExplanationView
from apps.api.fallback import FallbackView
from apps.api.findings import FindingsView
from apps.api.focus import FocusView
from apps.api.gpu_weights import GpuWeightsView
from apps.api.held_work import HeldWorkView
from apps.api.idle import IdleView, SupplyView
from apps.api.loans import LoansView
from apps.api.nodes import NodesView, NodeView
from apps.api.queue_detail import QueueView
from apps.api.queues import QueuesView
from apps.api.quota_changes import (
    QuotaChangeDeedView,
    QuotaChangesCalendarView,
    QuotaChangesView,
    QuotaChangeView,
)
from apps.api.quota_history import QuotaHistoryView
from apps.api.quotas import QuotasView
from apps.api.rates import RatesView
from apps.api.sources import SourcesView
from apps.api.stack import StackView
from apps.api.statements import StatementsView, StatementView
from apps.api.teams import TeamsView, TeamView
from apps.api.topology import TopologyNodesView, TopologyView
from apps.api.unknown_texts import UnknownTextsView
from apps.api.unmade import UnmadeView
from apps.api.usage import UsageHoursView, UsageView
from apps.api.wait_times import WaitTimesView
from apps.api.what_if import WhatIfView
from apps.api.workloads import WorkloadsView, WorkloadView

app_name = "api"

# Kubernetes names: no slash, no control characters.
NAME = r"[-.A-Za-z0-9_:]{1,253}"
MONTH = r"\d{4}-(?:0[1-9]|1[0-2])"
NUMBER = r"[1-9][0-9]{0,17}"

urlpatterns = [
    path("v1/clusters/", ClustersView.as_view(), name="clusters"),
    path("v1/clusters/<slug:slug>/", ClusterView.as_view(), name="cluster"),
    path("v1/teams/", TeamsView.as_view(), name="teams"),
    path("v1/teams/<slug:slug>/", TeamView.as_view(), name="team"),
    path("v1/capacity/", CapacityView.as_view(), name="capacity"),
    path("v1/nodes/", NodesView.as_view(), name="nodes"),
    re_path(rf"^v1/nodes/(?P<cluster>[-\w]+)/(?P<name>{NAME})/$", NodeView.as_view(), name="node"),
    path("v1/stack/", StackView.as_view(), name="stack"),
    path("v1/topology/", TopologyView.as_view(), name="topology"),
    path("v1/topology/nodes/", TopologyNodesView.as_view(), name="topology-nodes"),
    path("v1/gpu-weights/", GpuWeightsView.as_view(), name="gpu-weights"),
    path("v1/devices/", DevicesView.as_view(), name="devices"),
    path("v1/queues/", QueuesView.as_view(), name="queues"),
    re_path(
        rf"^v1/queues/(?P<cluster>[-\w]+)/(?P<kind>[A-Za-z]+)/(?P<name>{NAME})/$",
        QueueView.as_view(),
        name="queue",
    ),
    path("v1/quotas/", QuotasView.as_view(), name="quotas"),
    path("v1/quotas/history/", QuotaHistoryView.as_view(), name="quota-history"),
    path("v1/quotas/loans/", LoansView.as_view(), name="quota-loans"),
    path("v1/quotas/what-if/", WhatIfView.as_view(), name="what-if"),
    path("v1/quota-changes/", QuotaChangesView.as_view(), name="quota-changes"),
    path("v1/quota-changes/calendar/", QuotaChangesCalendarView.as_view(), name="quota-changes-calendar"),
    re_path(rf"^v1/quota-changes/(?P<pk>{NUMBER})/$", QuotaChangeView.as_view(), name="quota-change"),
    re_path(
        rf"^v1/quota-changes/(?P<pk>{NUMBER})/(?P<deed>[a-z_]+)/$",
        QuotaChangeDeedView.as_view(),
        name="quota-change-deed",
    ),
    path("v1/workloads/", WorkloadsView.as_view(), name="workloads"),
    re_path(rf"^v1/workloads/(?P<uid>{NAME})/$", WorkloadView.as_view(), name="workload"),
    re_path(rf"^v1/workloads/(?P<uid>{NAME})/explanation/$", ExplanationView.as_view(), name="explanation"),
    path("v1/admission-failures/", AdmissionFailuresView.as_view(), name="admission-failures"),
    path("v1/admission-failures/hours/", BlockedHoursView.as_view(), name="admission-failures-hours"),
    path("v1/admission-failures/work/", BlockedWorkView.as_view(), name="admission-failures-work"),
    path("v1/admission-failures/outcomes/", OutcomesView.as_view(), name="admission-failures-outcomes"),
    path("v1/admission-failures/unknown/", UnknownTextsView.as_view(), name="admission-failures-unknown"),
    path("v1/admission-failures/unmade/", UnmadeView.as_view(), name="admission-failures-unmade"),
    path("v1/wait-times/", WaitTimesView.as_view(), name="wait-times"),
    path("v1/supply/", SupplyView.as_view(), name="supply"),
    path("v1/idle/", IdleView.as_view(), name="idle"),
    path("v1/usage/", UsageView.as_view(), name="usage"),
    path("v1/usage/work/", HeldWorkView.as_view(), name="usage-work"),
    path("v1/usage/hours/", UsageHoursView.as_view(), name="usage-hours"),
    path("v1/findings/", FindingsView.as_view(), name="findings"),
    path("v1/rates/", RatesView.as_view(), name="rates"),
    path("v1/audit/", AuditView.as_view(), name="audit"),
    path("v1/billing-periods/", BillingPeriodsView.as_view(), name="billing-periods"),
    re_path(rf"^v1/billing-periods/(?P<month>{MONTH})/$", BillingPeriodView.as_view(), name="billing-period"),
    re_path(
        rf"^v1/billing-periods/(?P<month>{MONTH})/close/$",
        ClosePeriodView.as_view(),
        name="billing-period-close",
    ),
    path("v1/charges/", ChargesView.as_view(), name="charges"),
    path("v1/statements/", StatementsView.as_view(), name="statements"),
    re_path(
        rf"^v1/statements/(?P<month>{MONTH})/(?P<team>[-\w]+)/$", StatementView.as_view(), name="statement"
    ),
    path("v1/budgets/", BudgetsView.as_view(), name="budgets"),
    path("v1/focus/", FocusView.as_view(), name="focus"),
    path("v1/sources/", SourcesView.as_view(), name="sources"),
    path("schema/", SchemaView.as_view(), name="schema"),
    path("docs/", docs, name="docs"),
    re_path(r"^.*$", FallbackView.as_view(), name="nowhere"),
]
