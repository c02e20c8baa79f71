"""The Chinese catalogue is whole: nothing missing, nothing guessed, compiled, and in step with the source."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import polib
import pytest
from django.conf import settings
from django.utils import translation

ROOT = Path(settings.BASE_DIR)
CATALOGUE = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
# What `makemessages` must leave out: tests, and what is never shown to a reader of the portal.
IGNORED = (
    ".venv",
    "var",
    "static",
    "tests",
    "simcluster",
    "bench",
    "apps/*/tests",
    "test-results",
    "node_modules",
)


def entries() -> list[polib.POEntry]:
    return [entry for entry in polib.pofile(str(CATALOGUE)) if not entry.obsolete]


def texts(entry: polib.POEntry) -> list[str]:
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


def test_every_message_is_translated_and_none_is_fuzzy() -> None:
    assert [e.msgid for e in entries() if e.fuzzy] == []
    assert [e.msgid for e in entries() if not all(text.strip() for text in texts(e))] == []


def test_placeholders_are_the_same_in_both_languages() -> None:
    def names(text: str) -> set[str]:
        return set(re.findall(r"%\((\w+)\)", text))

    wrong = [
        e.msgid for e in entries() for text in texts(e) if names(text) != names(e.msgid_plural or e.msgid)
    ]
    assert wrong == []


def test_markup_is_the_same_in_both_languages() -> None:
    wrong = [
        e.msgid
        for e in entries()
        for text in texts(e)
        if sorted(re.findall(r"</?\w+>", text)) != sorted(re.findall(r"</?\w+>", e.msgid_plural or e.msgid))
    ]
    assert wrong == []


def test_the_compiled_catalogue_is_the_one_that_is_read() -> None:
    compiled = {e.msgid: texts(e) for e in polib.mofile(str(CATALOGUE.with_suffix(".mo"))) if e.msgid}
    assert compiled == {e.msgid: texts(e) for e in entries()}


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="no xgettext: apt-get install gettext")
def test_every_message_of_the_source_is_in_the_catalogue(tmp_path: Path) -> None:
    """Extracts into a copy, so that the check changes nothing."""
    command = ["makemessages", "--locale", "zh_Hans", "--no-obsolete", "--no-location", "--keep-pot"]
    ignored = [part for pattern in IGNORED for part in ("--ignore", pattern)]
    for name in ("apps", "templates", "gpuportal", "worker", "manage.py"):
        source = ROOT / name
        target = tmp_path / name
        if source.is_dir():
            shutil.copytree(
                source, target, ignore=shutil.ignore_patterns("__pycache__", "tests", "migrations")
            )
        else:
            shutil.copy(source, target)
    (tmp_path / "locale").mkdir()
    subprocess.run(
        ["python", "-m", "django", *command, *ignored],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=120,
        env=_environment(tmp_path),
    )
    found = {entry.msgid for entry in polib.pofile(str(tmp_path / "locale" / "django.pot"))}
    assert sorted(found - {entry.msgid for entry in entries()}) == []


def _environment(folder: Path) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(folder), "DJANGO_SETTINGS_MODULE": "gpuportal.settings"}


def test_terms_are_those_of_the_glossary() -> None:
    """One word per thing, see the project's terms."""
    with translation.override("zh-hans"):
        from django.utils.translation import gettext

        assert [
            gettext(word) for word in ("nominal quota", "borrow", "lend", "admission", "flavor", "cohort")
        ] == [
            "名义配额",
            "借用",
            "出借",
            "准入",
            "资源规格",
            "队列组",
        ]
