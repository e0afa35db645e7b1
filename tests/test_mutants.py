"""The mutants follow the sources: what each replaces stands there, exactly once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import Mutant

TOP = Path(__file__).parents[1]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_a_mutant_replaces_stands_once(mutant: Mutant) -> None:
    text = (TOP / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.right) == 1
    assert mutant.wrong != mutant.right


def test_no_two_mutants_have_one_name() -> None:
    named = Counter(mutant.name for mutant in MUTANTS)
    assert [name for name, times in named.items() if times > 1] == []
