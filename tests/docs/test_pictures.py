"""The animated picture in the README shows what its recording shows."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

from scripts.cast_to_svg import convert

from tests.support.paths import ROOT

CAST = [
    {"version": 2, "width": 20, "height": 3},
    [0.5, "o", "$ \x1b[31mls\x1b[0m"],
    [1.0, "o", "\r\na & b\r\n"],
    [60.0, "o", "\x1b[2J\x1b[Hend"],
]


def read_texts(svg: str) -> list[tuple[str, str, str]]:
    """Return text, opacity without animation, and times of each element."""
    root = ElementTree.fromstring(svg)
    tag = "{http://www.w3.org/2000/svg}"
    return [
        ("".join(text.itertext()), text.attrib["opacity"], text.find(f"{tag}animate").attrib["keyTimes"])  # type: ignore[union-attr]
        for text in root.iter(f"{tag}text")
    ]


def test_each_content_of_a_row_is_visible_while_the_terminal_shows_it() -> None:
    texts = read_texts(convert("\n".join(map(json.dumps, CAST)), "a session"))
    # The pause of 59 seconds is shortened to 2, and the last screen stays for 5: 8 seconds in all.
    assert texts == [
        ("$ls", "0", "0;0.0625;0.3750"),
        ("a & b", "0", "0;0.1250;0.3750"),
        ("end", "1", "0;0.3750"),
    ]


def test_colours_of_the_terminal_are_kept() -> None:
    assert re.search(r'fill="#f07178"[^>]*>ls<', convert("\n".join(map(json.dumps, CAST)), "a session"))


def test_the_picture_of_the_readme_shows_claude_and_a_merge() -> None:
    shown = [text for text, _, _ in read_texts((ROOT / "docs/images/session.svg").read_text())]
    assert any("claude" in text for text in shown) and any("pull fix --merge" in text for text in shown)
