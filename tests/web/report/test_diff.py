"""The diff on the page of a task: side by side, with changed words and the colours of the language."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.mapreduce.run_dir import make_slug
from mngr.web.report.diff.changed_words import WordMarker
from mngr.web.report.diff.syntax import CodePart, find_language, split_line
from mngr.web.report.diff.task_diff import FileDiff, parse_patch
from tests.support.browser import Browser
from tests.support.runfolder import RunFolder

TEST = "tests/test_price.py::test_tea"
OLD = "def price(name):\n    return PRICES[name]\n"
NEW = "def price(name, tax=0.2):\n    # with tax\n    return PRICES[name] * (1 + tax)\n"
TEXTS = "(selector) => [...document.querySelectorAll(selector)].map(each => each.textContent)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a task whose commit changes two lines of shop.py and adds a file."""
    folder = RunFolder(tmp_path_factory.mktemp("diff"), "nightly")
    fix = folder.commit(folder.base, "Add the tax", {"shop.py": NEW, "new.md": "Prices have a tax.\n"})
    folder.task(TEST, 100, ("fixed", "fixed", "confirmed"), commit=fix)
    folder.write()
    return f"file://{Path(folder.report()).parent}/tasks/{make_slug(TEST)}.html"


def parse(patch: str) -> list[FileDiff]:
    return list(parse_patch(patch.split("\n"), WordMarker()))


def join_marked(parts: list[CodePart]) -> str:
    return "".join(f"[{part.text}]" if "word" in part.kind.split() else part.text for part in parts)


def test_old_and_new_lines_are_side_by_side_with_numbers_and_changed_words(browser: Browser, page: str) -> None:
    browser.resize(1400, 900)
    browser.open(page)
    shop = ".hunks:not(.one-sided)"
    assert browser.ask(f"({TEXTS})('{shop} .old > div')") == ["-def price(name):", "-    return PRICES[name]"]
    numbers = browser.ask(f"[...document.querySelectorAll('{shop} .new > div')].map(each => each.dataset.n)")
    assert numbers == ["1", "2", "3"]
    old, new = browser.ask(
        f"['.old', '.new'].map(side => document.querySelector('{shop} ' + side).getBoundingClientRect().toJSON())"
    )
    assert old["top"] == new["top"] and old["right"] <= new["left"] + 1
    assert ", tax=0.2" in "".join(browser.ask(f"({TEXTS})('{shop} .new .word')"))
    assert {"def", "return"} <= set(browser.ask(f"({TEXTS})('{shop} .keyword')"))
    assert browser.ask(f"({TEXTS})('{shop} .new .comment')") == ["# with tax"]
    assert browser.complaints == []


def test_a_new_file_uses_the_whole_width(browser: Browser, page: str) -> None:
    browser.resize(1400, 900)
    browser.open(page)
    widths = browser.ask("['.one-sided', '.one-sided .new'].map(each => document.querySelector(each).clientWidth)")
    assert widths[1] >= widths[0] - 2


def test_on_a_narrow_screen_the_old_lines_are_above_the_new_ones(browser: Browser, page: str) -> None:
    browser.resize(390, 800)
    browser.open(page)
    old, new = browser.ask(
        "['.old', '.new'].map(side => document.querySelector('.hunks:not(.one-sided) ' + side).getBoundingClientRect().toJSON())"
    )
    assert old["bottom"] <= new["top"] and old["left"] == new["left"]
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")


def test_a_kept_line_is_on_both_sides_with_its_numbers() -> None:
    [file] = parse("diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -3,2 +7,3 @@ def f\n x = 1\n+y = 2\n z = 3")
    [hunk] = file.hunks
    assert [(block.is_change, len(block.old), len(block.new)) for block in hunk.blocks] == [
        (False, 1, 1),
        (True, 0, 1),
        (False, 1, 1),
    ]
    assert [(block.old[0].number, block.new[0].number) for block in hunk.blocks if block.old] == [(3, 7), (4, 9)]


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("total = price", "total = price * tax", ("total = price", "total = price[ * tax]")),
        ("assert a == 3", "assert a == 4", ("assert a == [3]", "assert a == [4]")),
        ("return name", "# no longer used", ("return name", "# no longer used")),
    ],
)
def test_only_the_words_that_differ_are_marked(old: str, new: str, marked: tuple[str, str]) -> None:
    both = WordMarker().mark(split_line(old, "python"), split_line(new, "python"))
    assert (join_marked(both[0]), join_marked(both[1])) == marked


@pytest.mark.parametrize(
    "line",
    ["", "x = 'it''s' + \"a", '"\\"\\"' * 900, "'" * 1999, "/*" * 900, "`${" * 600, "1.2.3" * 400, "<b>&amp;"],
)
@pytest.mark.parametrize("path", ["a.py", "a.sh", "a.ts", "a.sql", "a.toml", "a"])
def test_the_parts_of_a_line_are_the_line(line: str, path: str) -> None:
    began = time.perf_counter()
    assert "".join(part.text for part in split_line(line, find_language(path))) == line
    assert time.perf_counter() - began < 1


def test_a_hostile_diff_takes_no_long_time() -> None:
    lines = [f"-{'a b ' * 60}{n}" for n in range(1000)] + [f"+{'b a ' * 60}{n}" for n in range(1000)]
    began = time.perf_counter()
    [file] = parse("\n".join(["diff --git a/a b/a", "@@ -1,1000 +1,1000 @@", *lines]))
    assert time.perf_counter() - began < 10
    assert len(file.hunks[0].blocks[0].old) == 1000


def test_a_line_that_looks_like_a_header_stays_a_line() -> None:
    [file] = parse("diff --git a/a b/a\nnew file mode 100644\n@@ -0,0 +1,2 @@\n+diff --git a/x b/x\n+@@ -1 +1 @@")
    assert (file.path, file.notes, file.is_one_sided) == ("a", ["new file mode 100644"], True)
    assert [line.parts[0].text for line in file.hunks[0].blocks[0].new] == ["diff --git a/x b/x", "@@ -1 +1 @@"]
