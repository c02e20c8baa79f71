"""Between tests that commit."""

import pytest
from django.contrib.contenttypes.models import ContentType

from apps.accounts.models import User

from .emptying import empty_database


@pytest.mark.django_db(transaction=True)
def test_an_emptied_database_still_knows_its_content_types() -> None:
    ContentType.objects.get_for_model(User)
    User.objects.create_user("somebody")
    empty_database()
    assert not User.objects.exists()
    assert ContentType.objects.filter(pk=ContentType.objects.get_for_model(User).pk).exists()
