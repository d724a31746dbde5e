import shutil
from pathlib import Path

from render import render

GOLDEN = Path(__file__).parent / "golden"


def test_page(tmp_path):
    """The page is as it was drawn."""
    shutil.copy(GOLDEN / "index.html", tmp_path / "index.html")
    render("index.md", tmp_path / "index.html")
    assert (tmp_path / "index.html").read_text() == (GOLDEN / "index.html").read_text()
