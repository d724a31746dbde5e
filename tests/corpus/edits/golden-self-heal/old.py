from pathlib import Path

import pytest

from mdrender import render

GOLDEN = Path(__file__).parent / "golden"


def check_golden(name, actual):
    expected = (GOLDEN / name).read_text(encoding="utf-8")
    assert actual == expected


@pytest.mark.parametrize("case", ["table", "nested_list", "footnote"])
def test_render_matches_golden(case):
    source = (GOLDEN / f"{case}.md").read_text(encoding="utf-8")
    check_golden(f"{case}.html", render(source))
