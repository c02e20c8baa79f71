"""A billing period as a FOCUS 1.2 file; for finance and platform admins only, to others there is no such address.

Every column of FOCUS 1.2, then our own (`x_`); a row for each priced line of the ledger, whose amounts add up to the
ledger's. Lines without a price have no row: `X-Unpriced-Lines` counts them. The file of a closed period never changes.
That of an open one is provisional (`X-Provisional: true`): its InvoiceId is null, its ETag weak, and the next one replaces
it."""

from __future__ import annotations

from typing import Any

from django.http import Http404, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers
from rest_framework import serializers
from rest_framework.request import Request

from apps.accounts.models import User
from apps.accounts.selectors import sees_all_teams
from apps.api.period_answers import PeriodAnswers
from apps.api.schema import documented_file
from apps.chargeback.focus_export import Export, closed_export, open_export
from apps.chargeback.focus_filters import FocusForm
from apps.chargeback.models import BillingPeriod


@documented_file(
    operation="focus",
    summary="A billing period as a FOCUS file",
    media_types=("text/csv", "application/vnd.apache.parquet"),
)
class FocusView(PeriodAnswers):
    route = "focus"
    item = serializers.Serializer
    filter_class = FocusForm

    def get(self, request: Request) -> HttpResponseBase:
        if not (isinstance(request.user, User) and sees_all_teams(request.user)):
            raise Http404
        form = self.read(request).form
        period: BillingPeriod = form.cleaned_data["period"]
        self.period = period
        export = closed_export if period.is_closed else open_export
        return _answer(request, period, export(period, form.chosen_format))

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        if answer.status_code in (200, 304):
            # What one person may keep is not for the next one at the same browser.
            patch_vary_headers(answer, ["Authorization", "Cookie"])
        return answer


def _answer(request: Request, period: BillingPeriod, export: Export) -> HttpResponseBase:
    """The file, or 304 to whoever has it."""
    etag = f'W/"{export.tag}"' if export.provisional else f'"{export.tag}"'
    response: HttpResponseBase | None = get_conditional_response(request._request, etag=etag)
    if response is None:
        response = StreamingHttpResponse(export.pieces(), content_type=export.format.media_type)
        response["Content-Disposition"] = f'attachment; filename="{_file_name(period, export)}"'
        response["X-Unpriced-Lines"] = str(export.unpriced)
    response["ETag"] = etag
    if export.provisional:
        response["X-Provisional"] = "true"
    return response


def _file_name(period: BillingPeriod, export: Export) -> str:
    provisional = "-provisional" if export.provisional else ""
    return f"focus-1.2-{period.month}{provisional}.{export.format.value}"
