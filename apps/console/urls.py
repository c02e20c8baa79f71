"""Addresses of the pages. They stay: people keep them as links."""

from django.urls import path

from apps.console import (
    account,
    admission_trends,
    admissions,
    capacity,
    charts,
    findings,
    glossary,
    overview,
    queue_page,
    queues,
    sources,
    stack,
    teams,
    topology,
    unknown_texts,
    what_if,
    workloads,
)

app_name = "console"
urlpatterns = [
    path("login/", account.login, name="login"),
    path("logout/", account.logout, name="logout"),
    path("preferences/", account.preferences, name="preferences"),
    path("", overview.overview, name="overview"),
    path("teams/", teams.teams, name="teams"),
    path("teams/<slug:slug>/", teams.team, name="team"),
    path("capacity/", capacity.capacity, name="capacity"),
    path("capacity/topology/", topology.topology, name="topology"),
    path("capacity/nodes/<str:name>/", capacity.node, name="node"),
    path("capacity/stack/", stack.stack, name="stack"),
    path("queues/", queues.queues, name="queues"),
    path("queues/what-if/", what_if.what_if, name="what_if"),
    path("queues/<slug:cluster>/<str:kind>/<str:name>/", queue_page.queue, name="queue"),
    path("findings/", findings.findings, name="findings"),
    path("admissions/", admissions.admissions, name="admissions"),
    path("admissions/over-time/", admission_trends.over_time, name="admissions_over_time"),
    path("admissions/wait-times/", admission_trends.wait_times, name="wait_times"),
    path("admissions/work/", admission_trends.work, name="blocked_work"),
    path("admissions/unknown/", unknown_texts.unknown, name="unknown_texts"),
    path("workloads/<str:uid>/", workloads.workload, name="workload"),
    path("sources/", sources.sources, name="sources"),
    path("sources/quarantine/<int:pk>/", sources.quarantined_bytes, name="quarantined_bytes"),
    path("glossary/", glossary.glossary, name="glossary"),
    path("charts/<slug:name>.json", charts.figure, name="chart_json"),
    path("charts/<slug:name>/", charts.table, name="chart"),
]
