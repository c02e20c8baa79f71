"""OpenAPI from what the views already say: the shared filter gives the parameters, the item serializer the rows.

`documented` is the only place that knows drf-spectacular. Descriptions are in English whatever the language of the
request; machine-readable names never change with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from django import forms
from django.utils import translation
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
    inline_serializer,
)
from rest_framework import serializers

from apps.api.base import FRESHNESS, ListView, ReadView, SourceStateSerializer
from apps.api.fields import Instant, Text
from apps.api.pagination import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, PageForm

V = TypeVar("V", bound=type[ReadView])


class FaultSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One parameter that is wrong; `code` is stable, `detail` translated."""

    parameter = Text()
    code = Text()
    detail = Text()


class ProblemSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """RFC 9457 problem document."""

    type = Text()
    title = Text()
    status = serializers.IntegerField(read_only=True)
    detail = Text()
    instance = Text()
    errors = FaultSerializer(many=True, read_only=True)  # type: ignore[assignment]


_PROBLEMS = {
    (status, "application/problem+json"): OpenApiResponse(ProblemSerializer, description=text)
    for status, text in (
        (400, "A parameter is unknown, repeated or cannot be used."),
        (401, "Not authenticated."),
        (404, "There is no such thing, or the reader may not see it."),
    )
}


def documented(
    *,
    operation: str,
    summary: str,
    description: str = "",
    body: type[serializers.Serializer[Any]] | None = None,
) -> Callable[[V], V]:
    """Class decorator of a ListView or DetailView; without a description its module's docstring is taken. `body`: what
    the view takes by POST; without one it is read by GET."""

    def decorate(view: V) -> V:
        many = issubclass(view, ListView)
        schema = extend_schema(
            operation_id=operation,
            summary=summary,
            description=description or (sys.modules[view.__module__].__doc__ or "").strip(),
            tags=[view.route],
            parameters=_parameters(view, many=many),
            request=body,
            responses={(200, "application/json"): _envelope(view, operation, many=many), **_PROBLEMS},
        )
        return extend_schema_view(**{"post" if body else "get": schema})(view)

    return decorate


def _envelope(view: type[ReadView], operation: str, *, many: bool) -> serializers.Serializer[Any]:
    fields: dict[str, Any] = {
        "as_of": Instant(
            allow_null=True, help_text="Age of the oldest source; null when nothing was collected."
        ),
        "state": serializers.ChoiceField(choices=FRESHNESS, read_only=True),
        "state_label": Text(),
        "sources": SourceStateSerializer(many=True, read_only=True),
        "missing": SourceStateSerializer(
            many=True,
            read_only=True,
            help_text="Sources that never brought data: the answer leaves them out.",
        ),
    }
    if many:
        fields |= getattr(view, "extra_fields", {})
        fields["next"] = Text(allow_null=True, help_text="Path and query of the next page; null on the last.")
        fields["results"] = view.item(many=True, read_only=True)
    else:
        fields["result"] = view.item(read_only=True)
    name = "".join(part.title() for part in operation.split("-"))
    return inline_serializer(f"{name}{'Page' if many else 'Answer'}", fields)


def _parameters(view: type[ReadView], *, many: bool) -> list[OpenApiParameter]:
    found = form_parameters(view.filter_class.base_fields) if view.filter_class else []
    return [*found, *form_parameters(PageForm.base_fields)] if many else found


def form_parameters(fields: dict[str, forms.Field]) -> list[OpenApiParameter]:
    with translation.override("en"):
        return [_parameter(name, field) for name, field in fields.items()]


def _parameter(name: str, field: forms.Field) -> OpenApiParameter:
    schema: dict[str, Any] = {"type": "string"}
    if isinstance(field, forms.IntegerField):
        schema = {"type": "integer"}
        if field.max_value is not None:
            schema |= {"minimum": field.min_value, "maximum": field.max_value}
    elif isinstance(field, forms.NullBooleanField | forms.BooleanField):
        schema = {"type": "boolean"}
    elif isinstance(field, forms.ChoiceField):
        choices = [str(value) for value, _label in list(field.choices) if value != ""]  # type: ignore[arg-type]
        schema = {"type": "string", "enum": choices}
    elif isinstance(field, forms.CharField) and field.max_length:
        schema |= {"maxLength": field.max_length}
    if name == "page_size":
        schema |= {"default": DEFAULT_PAGE_SIZE, "maximum": MAX_PAGE_SIZE}
    text = str(field.help_text or field.label or "")
    return OpenApiParameter(name=name, type=schema, required=field.required, description=text)
