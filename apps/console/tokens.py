"""`/account/tokens/`: the reader's own API tokens: made, looked at, revoked.

GET shows them; POST makes one and shows its text on that very answer, since it is kept nowhere, or revokes one and leads
back here. Works without a script. The answer is stored by no cache, and the page is not read anew by itself: the text
would be gone from it. Tokens of others do not exist here."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.accounts.models import ApiToken, User
from apps.accounts.token_form import TokenForm
from apps.console.access import reader
from apps.console.frame import Page


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    page, owner = Page.open(request, sources=()), reader(request)
    if request.method != "POST":
        return _show(page, owner, TokenForm(owner=owner))
    if "revoke" in request.POST:
        return _revoke(owner, request.POST["revoke"])
    form = TokenForm(request.POST, owner=owner)
    made = form.make(now=page.now) if form.is_valid() else None
    if made is None:
        return _show(page, owner, form, status=HTTPStatus.BAD_REQUEST)
    token, text = made
    return _show(page, owner, TokenForm(owner=owner), token, text)


def _revoke(owner: User, pk: str) -> HttpResponse:
    get_object_or_404(owner.api_tokens, pk=int(pk) if pk.isdecimal() and len(pk) < 19 else 0).delete()
    return HttpResponseRedirect(reverse("console:tokens"), status=HTTPStatus.SEE_OTHER)


def _show(
    page: Page,
    owner: User,
    form: TokenForm,
    made: ApiToken | None = None,
    text: str = "",
    *,
    status: HTTPStatus = HTTPStatus.OK,
) -> HttpResponse:
    """`made` and `text`: the token that was made just now, and what nobody can show again."""
    context = {
        "form": form,
        "made": made,
        "text": text,
        "rows": [(token, token.expires_at <= page.now) for token in owner.api_tokens.all()],
    }
    answer = page.render("console/tokens.html", context)
    answer.status_code = status
    return answer
