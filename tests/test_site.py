"""The site of the documents: what leads where, and what it has to have. `make docs` builds it."""

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import patallreduce as pat

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
PAGES = sorted(
    {*DOCS.glob("*.md"), *ROOT.glob("*.md"), ROOT / "benchmarks" / "results" / "README.md"}
    - {ROOT / "README.md"}  # whose beginning is the first page's
)
ERRORS = [name for name in pat.__all__ if name.endswith(("Error", "Timeout"))]
of_every_page = pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md"], ids=lambda path: str(path.relative_to(ROOT))
)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def listed_by(page: Path) -> set[Path]:
    """The pages in the tables of contents of a page."""
    tables = re.findall(r"^```\{toctree\}\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)
    entries = [line for table in tables for line in table.splitlines() if line]
    return {(page.parent / f"{e}.md").resolve() for e in entries if not e.startswith(":")}


def anchors(page: Path) -> set[str]:
    """Those of its headings, as GitHub and the site make them."""
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    kept = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in kept}


def missing(page: Path) -> list[str]:
    """Links of a page within the project that lead nowhere."""
    prose = re.sub(r"`[^`]*`", "", text_of(page))
    links = re.findall(r"\]\(([^)\s]+)\)", prose)
    wrong = []
    for link in links:
        if link.startswith(("https:", "http:")):
            continue
        path, anchor = urldefrag(link)
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


def test_every_page_is_reached_from_the_index():
    assert {INDEX} | listed_by(INDEX) == set(PAGES)


@of_every_page
def test_links_between_pages_lead_somewhere(page):
    assert missing(page) == []


def test_a_link_that_leads_nowhere_would_be_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A heading, here\n[a](#a-heading-here) [b](#b) [c](c.md) [d](page.md#e)\n")
    assert missing(page) == ["#b", "c.md", "page.md#e"]


def test_every_public_name_is_in_the_api_reference():
    directive = r"^\.\. auto\w+:: patallreduce\.([\w.]+)"
    described = re.findall(directive, text_of(DOCS / "api.md"), re.MULTILINE)
    for name in set(pat.__all__) - {"hooks"}:
        assert name in described or f"hooks.{name}" in described, name
    for name in pat.hooks.__all__:
        assert name in described or f"hooks.{name}" in described, name


def test_every_public_error_has_a_line_in_troubleshooting():
    assert len(ERRORS) > 4
    for name in ERRORS:
        assert re.search(rf"^\| `{name}` \|", text_of(DOCS / "troubleshooting.md"), re.M), name


def test_messages_in_troubleshooting_are_those_of_the_sources():
    """Each in bold and quotes; numbers of ranks and what stands for anything are left out."""
    folders = ("hooks/*.py", "patallreduce/**/*.py", "csrc/**/*")
    sources = [path for folder in folders for path in ROOT.glob(folder)]
    code = "\n".join(text_of(path) for path in sources if path.suffix in {".py", ".cpp", ".h"})
    said = re.sub(r'"\s*\n\s*f?"', "", code)
    quoted = re.findall(r'\*\*"([^*]+)"\*\*', text_of(DOCS / "troubleshooting.md"))
    assert len(quoted) > 20
    pause = r" ?\.\.\. ?|\b(?:rank )?\d\b|PATALLREDUCE_SOCKET_IFNAME: "
    parts = {part.strip(" :") for message in quoted for part in re.split(pause, message)}
    assert [part for part in parts if part not in said] == []


@pytest.mark.parametrize("page", sorted({INDEX, *DOCS.glob("*.md")}), ids=lambda path: path.stem)
def test_code_of_python_runs_while_the_site_is_built(page):
    """As `doctest`, `testcode`, `run`, or as a part of a file that is run."""
    assert "```python" not in text_of(page)
    for shown in re.findall(r"^```\{literalinclude\} (\S+)", text_of(page), re.MULTILINE):
        assert (page.parent / shown).is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning_and_its_links_lead_somewhere(tmp_path):
    """With the commands of `make docs`; pages of the API have anchors that only Sphinx knows."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    options = re.search(r"^SPHINX = .* -m sphinx (.*) -c docs", recipe, re.MULTILINE)
    assert options
    assert "--fail-on-warning" in options[1]
    sphinx = [sys.executable, "-m", "sphinx", *options[1].split(), "-c", "docs"]
    shutil.rmtree(ROOT / "build" / "shown", ignore_errors=True)
    for builder in ("doctest", "html"):
        subprocess.run(
            [*sphinx, "-d", tmp_path / "doctrees", "-b", builder, ROOT, tmp_path / builder],
            cwd=ROOT,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            check=True,
        )
    pages = {page: text_of(page) for page in (tmp_path / "html").rglob("*.html")}
    ids = {page: set(re.findall(r'\bid="([^"]*)"', text)) for page, text in pages.items()}
    followed = 0
    for page, text in pages.items():
        for link in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            path, anchor = urldefrag(unquote(html.unescape(link)))
            if re.match(r"[a-z]+:", path):
                continue
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in ids.get(target, {anchor}), f"{page.name}: {link}"
            followed += 1
    print(f"{len(pages)} pages, {followed} links")
    assert len(pages) > len(PAGES)
