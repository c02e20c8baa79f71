"""What every read has in common: authorise, parse the shared filter, call the shared selector, serialise.

A list answers {"as_of", "state", "sources", "missing", "next", "results"}: `as_of` is the age of the oldest source
that the rows rest on, `missing` the sources that never brought data, so that an empty list is never mistaken for
"there is nothing". A subclass names its filter, its sources and its key, and calls one selector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.http import HttpRequest, HttpResponseBase
from django.http.request import QueryDict
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.models import User
from apps.accounts.selectors import visible_team_ids
from apps.api.fields import Instant, Text, instant_or_none
from apps.api.pagination import Key, Page, PageForm, next_link
from apps.api.problems import BadRequest, Fault, form_faults
from apps.fleet.models import Cluster
from apps.fleet.selectors import enabled_clusters
from apps.observations.models import Source
from apps.observations.selectors import AsOf, SourceStatus, State, as_of

WORK = (Source.KUEUE.value, Source.VOLCANO.value, Source.PODS.value, Source.EVENTS.value)
"""What is said of waiting work rests on these."""
FRESHNESS = [state.value for state in State]


class SourceStateSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """How fresh one source of one cluster is."""

    cluster = Text(source="cluster.slug")
    source = Text()  # type: ignore[assignment]
    state = serializers.ChoiceField(choices=FRESHNESS, read_only=True)
    state_label = Text()
    observed_at = Instant(allow_null=True)
    age_seconds = serializers.IntegerField(read_only=True, allow_null=True)


@dataclass(frozen=True, slots=True)
class Reading:
    """One request, checked: who reads, when, what of. `team_ids` None: all teams and unowned work."""

    now: datetime
    user: User
    team_ids: list[int] | None
    clusters: Sequence[Cluster]
    form: Any
    freshness: AsOf


class GuardedView(APIView):
    """Counts a request as soon as it is known whose it is, before it is judged what may be done."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """View and request refer to each other: what they keep stays until the cycle collector comes by, which is seldom
        where most of what is made is text. So neither keeps the answer."""
        answer: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        del self.response
        if isinstance(answer, Response):
            answer.add_post_render_callback(_forget_view)
        return answer

    def perform_authentication(self, request: Request) -> None:
        super().perform_authentication(request)
        super().check_throttles(request)

    def check_throttles(self, request: Request) -> None:
        """Done already."""


def _forget_view(answer: Response) -> None:
    answer.renderer_context = {}  # type: ignore[attr-defined]


class ReadView(GuardedView):
    """`filter_class` takes (data, *, now, team_ids) as all shared filters do; None when there is nothing to filter.
    `needs`: the observation sources that the answer rests on; () for what people maintain in the portal."""

    route: ClassVar[str]
    filter_class: ClassVar[type[forms.Form] | None] = None
    item: ClassVar[type[serializers.Serializer[Any]]]
    needs: ClassVar[tuple[str, ...]] = ()
    metadata_class = None

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        answer: Response = super().finalize_response(request, response, *args, **kwargs)
        patch_cache_control(answer, private=True, no_cache=True)
        return answer

    def read(self, request: Request, paging: forms.Form | None = None) -> Reading:
        now = timezone.now()
        user = request.user
        assert isinstance(user, User)  # noqa: S101 -- IsAuthenticated let it through
        team_ids = visible_team_ids(user)
        form = self.build_filter(request.query_params, now=now, team_ids=team_ids)
        known = [form, paging]
        faults = parameter_faults(request.query_params, [f for f in known if f is not None])
        for each in known:
            if each is not None and not each.is_valid():
                faults += form_faults(each)
        if faults:
            raise BadRequest(faults)
        clusters = chosen_clusters(form)
        return Reading(now, user, team_ids, clusters, form, self.freshness(now, clusters))

    def build_filter(
        self, data: QueryDict, *, now: datetime, team_ids: list[int] | None
    ) -> forms.Form | None:
        if self.filter_class is None:
            return None
        return self.filter_class(data, now=now, team_ids=team_ids)  # type: ignore[call-arg]

    def freshness(self, now: datetime, clusters: Sequence[Cluster]) -> AsOf:
        if not self.needs:
            return AsOf(observed_at=now, state=State.OK)
        return as_of(now=now, clusters=clusters, sources=self.needs)

    def envelope(self, reading: Reading, found: AsOf | None = None) -> dict[str, Any]:
        """`found`: the age of what is told, where it is not that of `needs`."""
        found = found or reading.freshness
        return {
            "as_of": instant_or_none(found.observed_at),
            "state": found.state.value,
            "state_label": found.state_label,
            "sources": source_states(found.statuses),
            "missing": source_states(found.missing),
        }

    def context(self, reading: Reading) -> dict[str, Any]:
        return {"reading": reading}


class ListView(ReadView):
    key_shape: ClassVar[tuple[type, ...]] = (int,)
    page_form: ClassVar[type[PageForm]] = PageForm

    def get(self, request: Request) -> Any:
        paging = self.page_form(request.query_params, route=self.route, shape=self.key_shape)
        reading = self.read(request, paging)
        page = self.page(reading, after=paging.cleaned_data["cursor"], size=paging.size)
        return Response(
            {
                **self.envelope(reading),
                **self.totals(reading),
                "next": next_link(request, page.last, route=self.route),
                "results": self.item(page.rows, many=True, context=self.context(reading)).data,
            }
        )

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Any]:
        raise NotImplementedError

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        """Totals and the like that belong to the whole list and not to the page."""
        return {}


class DetailView(ReadView):
    def get(self, request: Request, **kwargs: str) -> Response:
        reading = self.read(request)
        row = self.find(reading, **kwargs)
        return Response(
            {**self.envelope(reading), "result": self.item(row, context=self.context(reading)).data}
        )

    def find(self, reading: Reading, **kwargs: str) -> Any:
        """The object, or Http404 when there is none or the reader may not see it."""
        raise NotImplementedError


def source_states(statuses: Sequence[SourceStatus]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = SourceStateSerializer(statuses, many=True).data  # type: ignore[assignment]
    return found


def parameter_faults(data: QueryDict, forms_: list[forms.Form]) -> list[Fault]:
    """Parameters that no form takes, and single ones given twice: a filter that is silently ignored would answer
    another question than the one asked."""
    known = {name: field for form in forms_ for name, field in form.fields.items()}
    faults = []
    for name, values in data.lists():
        if name not in known:
            text = _("There is no parameter of this name here; there are: %(names)s.")
            faults.append(Fault(name, "unknown", text % {"names": ", ".join(sorted(known)) or "–"}))
        elif len(values) > 1 and not isinstance(known[name], forms.MultipleChoiceField):
            faults.append(Fault(name, "repeated", _("This parameter is given more than once.")))
    return faults


def chosen_clusters(form: forms.Form | None) -> list[Cluster]:
    """The clusters that the filter names, else all that are collected."""
    slug = form.cleaned_data.get("cluster") if form is not None else None
    found = enabled_clusters()
    return list(found.filter(slug=slug) if slug else found)
