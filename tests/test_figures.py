"""Every measured figure of the documents has a record, is computed from it, and says by what.

`tests/figures` makes from the records each text that a document states as measured. A number with
a unit that no such text covers, and that `not_measured.py` does not explain, fails.
"""

import re

import pytest

from tests.figures import (
    architecture,
    collectives,
    costs,
    decisions,
    demo,
    long_ways,
    nodes,
    ports,
    reproducible,
    training,
    tuned,
)
from tests.figures.not_measured import NOT_MEASURED
from tests.figures.records import RESULTS, ROOT, Figure, load

FIGURES = [
    figure
    for subject in (
        training,
        nodes,
        ports,
        long_ways,
        collectives,
        demo,
        costs,
        decisions,
        reproducible,
        architecture,
        tuned,
    )
    for figure in subject.figures()
]
PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))
DOCUMENTS = ["README.md", "ARCHITECTURE.md", *PAGES]
UNIT = r"(?:ns|us|ms|s|seconds?|min|minutes?|h|%|times|x|[GMK]B/s)"
# A number with a unit, or a decimal fraction, as ratios are; not the version or name of something.
NUMBER = re.compile(
    rf"(?<![\w.^])\d[\d,]*(?:\.\d+)?(?: ?{UNIT})(?![\w/])|(?<![\w.])\d+\.\d+(?![\w.])"
)


def flat(text: str) -> str:
    """The text with single spaces, so that lines may break anywhere."""
    return " ".join(text.split())


def prose(document: str) -> str:
    """The document without code and addresses; of C++ the comments' text with the code."""
    text = (ROOT / document).read_text(encoding="utf-8")
    if not document.endswith(".md"):
        return re.sub(r"^ *// ?", "", text, flags=re.MULTILINE)
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text).replace("\\*", "*")


def sections(document: str) -> list[str]:
    return [flat(section) for section in re.split(r"^#+ ", prose(document), flags=re.MULTILINE)]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.text[:60])
def test_a_measured_text_stands_as_its_record_has_it_and_names_its_statistic(figure: Figure):
    holding = [section for section in sections(figure.document) if flat(figure.text) in section]
    assert holding, f"{figure.document} does not say what {figure.record} gives: {figure.text}"
    assert all(figure.statistic in section for section in holding), (
        f"{figure.document}, beside {figure.text!r}: the word {figure.statistic!r} is missing"
    )


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_number_with_a_unit_is_measured_or_explained(document: str):
    text = flat(prose(document))
    for figure in FIGURES:
        if figure.document == document:
            text = text.replace(flat(figure.text), " ")
    for phrase, why in NOT_MEASURED.get(document, {}).items():
        assert why, f"{phrase}: without a reason"
        assert phrase in text, f"{document} no longer says {phrase!r}: take it out of the list"
        text = text.replace(phrase, " ")
    text = re.sub(r"`[^`]*`", " ", text)
    unexplained = [text[max(m.start() - 60, 0) : m.end() + 20] for m in NUMBER.finditer(text)]
    assert not unexplained, "\n".join(
        [f"{document}: neither measured nor explained:", *unexplained]
    )


def test_every_record_is_named_beside_its_command():
    index = (RESULTS / "README.md").read_text(encoding="utf-8")
    for record in sorted(RESULTS.glob("*.jsonl")):
        named = record.name in index or f"{record.stem}.*" in index
        assert named, f"benchmarks/results/README.md does not name {record.name}"


def test_a_record_of_a_measurement_names_its_machine():
    computed = {
        "arrival_classes.jsonl",
        "clairvoyant_allreduce.jsonl",
        "jobs.jsonl",
        "jobs_three_late.jsonl",
        "nodes_simulated.jsonl",
        "prediction.jsonl",
        "published.jsonl",
        "segments.jsonl",
        "turns.jsonl",
        "wrong_order.jsonl",
    }
    for path in sorted(RESULTS.glob("*.jsonl")):
        says = any("processor" in record or "environment" in record for record in load(path.name))
        assert says != (path.name in computed), path.name


def test_numbers_with_units_are_found():
    """The finder itself: what it has to see, and what it must not."""
    seen = ["takes 3 ms", "4.5 % less", "1,432 ms", "1.05 to 1.2", "| 0.98 |", "5 times", "16 s"]
    unseen = ["4 MiB", "200 Mbit/s", "2.14.0", "P = 8", "8 ranks", "x64 s3", "PAP18"]
    assert all(NUMBER.search(text) for text in seen)
    assert not any(NUMBER.search(text) for text in unseen)
