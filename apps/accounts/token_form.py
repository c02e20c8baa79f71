"""What a new token is asked for with, by its owner's page and by command. Input: name, scope and days; output: the token."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import ApiToken, User
from apps.accounts.tokens import MOST_DAYS, make_token

DAYS = 90


class TokenForm(forms.Form):
    """`owner`: whose token it becomes. Names are given once per owner, so that a form sent twice makes one token."""

    name = forms.CharField(label=_("Name"), max_length=80)
    scope = forms.ChoiceField(label=_("Scope"), choices=ApiToken.Scope.choices)
    days = forms.IntegerField(
        label=_("Days until it expires"), min_value=1, max_value=MOST_DAYS, initial=DAYS
    )

    def __init__(self, data: Any = None, *, owner: User) -> None:
        super().__init__(data)
        self.owner = owner

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if self.owner.api_tokens.filter(name=name).exists():
            raise _taken()
        return name

    def make(self, *, now: datetime) -> tuple[ApiToken, str] | None:
        """The token and its text; None with a fault of the form when a call of the same name came first. Only after
        `is_valid()`."""
        try:
            return make_token(self.owner, now=now, **self.cleaned_data)
        except IntegrityError:
            self.add_error("name", _taken())
            return None


def _taken() -> ValidationError:
    return ValidationError(_("There is a token of this name already."), code="taken")
