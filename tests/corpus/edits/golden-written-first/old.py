from pathlib import Path

import pytest

from md2html import convert

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize("name", ["headings", "lists", "tables"])
def test_against_golden(name):
    """Each case gives the HTML that is kept next to it."""
    source = (CASES / f"{name}.md").read_text(encoding="utf-8")
    golden = CASES / f"{name}.html"
    assert convert(source) == golden.read_text(encoding="utf-8")


def test_empty():
    """Nothing gives nothing."""
    assert convert("") == ""
