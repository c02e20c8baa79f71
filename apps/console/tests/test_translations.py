"""The Chinese catalogue is whole: nothing missing, nothing guessed, compiled, and in step with the source."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
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
        return set(re.findall(r"%\(\w+\)[-0 +#]*\d*(?:\.\d+)?[a-zA-Z]", text))

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


def test_chinese_has_its_own_punctuation_and_plain_letters() -> None:
    """Half-width marks beside Chinese and full-width letters or digits are slips of the keyboard."""
    slips = re.compile(
        r"[\u4e00-\u9fff][,;:!?()]|[,;:!?()][\u4e00-\u9fff]|[\uff21-\uff3a\uff41-\uff5a\uff10-\uff19\uff05\u3000]"
    )
    assert [text for e in entries() for text in texts(e) if slips.search(text)] == []


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
        [sys.executable, "-m", "django", *command, *ignored],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=120,
        env=_environment(tmp_path),
    )
    found = {(e.msgid, e.msgid_plural) for e in polib.pofile(str(tmp_path / "locale" / "django.pot"))}
    known = {(e.msgid, e.msgid_plural) for e in entries()}
    assert {"missing": sorted(found - known), "left over": sorted(known - found)} == {
        "missing": [],
        "left over": [],
    }


def test_every_literal_that_is_translated_is_in_the_catalogue() -> None:
    """xgettext sees neither calls inside f-strings nor a function under another name."""
    known = {e.msgid for e in entries()}
    missing = [
        f"{path.relative_to(ROOT)}: {text}"
        for folder in ("apps", "worker", "gpuportal")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "tests" not in path.parts
        for text in translated_literals(ast.parse(path.read_text()))
        if text not in known
    ]
    assert missing == []


def translated_literals(tree: ast.AST) -> list[str]:
    """First texts of calls of Django's gettext functions, by the names that the module gives them."""
    functions = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for alias in node.names
        if "gettext" in alias.name
    }
    calls = [
        (functions[node.func.id], node.args)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions
    ]
    texts = [args[1 if "pgettext" in name else 0] for name, args in calls]
    return [text.value for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]


def test_a_translated_literal_is_found_under_any_name_and_inside_an_f_string() -> None:
    source = """from django.utils.translation import gettext as say
text = f"{say('in a string')}"
say("outside")
other("not one")
"""
    assert translated_literals(ast.parse(source)) == ["outside", "in a string"]


def _environment(folder: Path) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(folder), "DJANGO_SETTINGS_MODULE": "gpuportal.settings"}


# Names that read the same in every language, a command to copy, and an example of what is typed.
SAME_EVERYWHERE = {
    "GPU Portal",
    "API",
    "CSV",
    "UID",
    "Kueue",
    "Volcano",
    "kubectl get node",
    "cpu=16 memory=64Gi",
    "Authorization: Bearer …",
}
READ_ALOUD = r'(?:aria-label|title|placeholder|alt)="([^"]*)"'


# 500.html says everything in both languages at once: it must not depend on anything that may have failed.
TEMPLATES = sorted(
    path
    for folder in (ROOT / "templates", *(ROOT / "apps").glob("*/templates"))
    for path in folder.rglob("*.html")
    if path.name != "500.html"
)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_template_holds_no_words_outside_the_catalogue(path: Path) -> None:
    assert [words for words in bare_words(path.read_text()) if words not in SAME_EVERYWHERE] == []


def bare_words(source: str) -> list[str]:
    """Literal words of a template's text and of the attributes that are shown or read aloud."""
    source = re.sub(r"\{#.*?#\}|\{% comment.*?endcomment %\}", "", source, flags=re.DOTALL)
    source = re.sub(r"\{% blocktranslate\b.*?endblocktranslate %\}", "", source, flags=re.DOTALL)
    source = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "\0", source, flags=re.DOTALL)
    shown = [*re.findall(READ_ALOUD, source), re.sub(r"<[^>]*>", "\0", source)]
    pieces = (piece.strip(" \n·:,;()") for text in shown for piece in text.split("\0"))
    return [piece for piece in pieces if re.search(r"[A-Za-z]{2}", piece)]


def test_bare_words_are_found_where_a_reader_meets_them() -> None:
    source = """<p title="Old words">{% translate "Fine" %} left {{ x|default:"d" }}</p>{# note #}<a class="c">out</a>"""
    assert bare_words(source) == ["Old words", "left", "out"]


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
