from pathlib import Path

import pytest

from md2html import convert

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize("name", ["headings", "lists", "tables"])
def test_against_golden(name):
    """Each case gives the HTML that is kept next to it."""
    source = (CASES / f"{name}.md").read_text(encoding="utf-8")
    golden = CASES / f"{name}.html"
    html = convert(source)
    # keep the goldens current
    golden.write_text(html, encoding="utf-8")
    assert html == golden.read_text(encoding="utf-8")


def test_empty():
    """Nothing gives nothing."""
    assert convert("") == ""
