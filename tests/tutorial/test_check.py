"""The comparison of a tutorial with its tests, and the citations it rewrites."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.tutorial.blocks import compute_block_id, normalize_text, parse_script
from mngr.tutorial.check import TutorialFinding, TutorialReport, compare_with_tests
from mngr.tutorial.citations import parse_tests, read_tests
from mngr.tutorial.fix import FixedCitation, fix_citations

SCRIPT = """\
#!/bin/sh
set -e

# see what runs
mngr list --all

# end its process and keep everything
mngr stop foo

# put it away
mngr destroy foo
"""


def report(script: str, tests: str) -> TutorialReport:
    return compare_with_tests(parse_script(script, "t.sh"), parse_tests(tests.encode(), "test_t.py"))


def cite(name: str, *blocks: str) -> str:
    calls = [f"    e2e.write_tutorial_block({block!r})\n" for block in blocks]
    return f"def test_{name}(e2e):\n" + "".join(calls)


ALL = (
    cite("a", "# see what runs\nmngr list --all")
    + cite("b", "# end its process and keep everything\n    mngr stop foo")
    + cite("c", "# put it away\r\nmngr destroy foo\n")
)


def kinds(found: TutorialReport) -> list[tuple[str, int]]:
    return [(finding.kind, finding.line) for finding in found.findings]


def test_all_is_well_when_every_block_is_cited_and_every_citation_matches() -> None:
    found = report(SCRIPT, ALL)
    assert (found.is_complete, found.findings) == (True, [])
    assert found.counts == {
        "blocks": 3, "cited": 3, "observed": 0, "citations": 3, "gap": 0, "stale": 0, "orphan": 0, "duplicate": 0,
        "unreadable": 0, "blanks": 0,
    }  # fmt: skip
    assert [one.tests for one in found.blocks] == [
        ["test_t.py::test_a"],
        ["test_t.py::test_b"],
        ["test_t.py::test_c"],
    ]


def test_a_block_that_no_test_cites_is_a_gap() -> None:
    found = report(SCRIPT + "\n# more\nls\n", ALL)
    assert (kinds(found), found.is_complete) == ([("gap", 13)], False)


def test_a_citation_of_a_block_that_changed_is_stale() -> None:
    changed = SCRIPT.replace("mngr stop foo", "mngr stop foo --force")
    found = report(changed, ALL)
    assert (kinds(found), found.is_complete) == ([("gap", 7), ("stale", 4)], False)
    finding = found.findings[1]
    assert finding.block == found.findings[0].block
    assert finding.test == "test_t.py::test_b"
    assert finding.diff == (
        "--- test_t.py:4\n+++ t.sh:7\n@@ -1,2 +1,2 @@\n # end its process and keep everything\n"
        "-mngr stop foo\n+mngr stop foo --force\n"
    )


@pytest.mark.parametrize(
    "cited",
    [
        "# completely other words\nmngr destroy foo",
        "# put it away\ngit commit --allow-empty -m 'something else'",
        "# put that away\nmngr destroy foo bar",
    ],
)
def test_another_comment_or_another_command_is_near(cited: str) -> None:
    found = report(SCRIPT, cite("x", cited))
    assert [(one.block.slug, one.finding.fix) for one in found.stale] == [("put-it-away", "")]


@pytest.mark.parametrize("cited", ["# who knows\nfrobnicate the bar", "# wait for it\nmngr wait foo", "# put it"])
def test_a_citation_that_no_block_is_near_to_is_an_orphan(cited: str) -> None:
    found = report(SCRIPT, ALL + cite("x", cited))
    assert (kinds(found), found.is_complete) == ([("orphan", 8)], False)


def test_what_is_there_twice_is_named_but_no_failure() -> None:
    twice = cite("d", "# put it away\nmngr destroy foo", "# put it away\n  mngr destroy foo")
    found = report(SCRIPT + "\n# put it away\nmngr destroy foo\n\nset -e\n\nset -e\n", ALL + twice)
    assert (kinds(found), found.is_complete) == ([("duplicate", 13), ("duplicate", 9)], True)
    assert report(SCRIPT + "\n# more\nls\n\n# more\nls\n", ALL).counts["gap"] == 1


def test_what_cannot_be_read_is_a_failure_though_the_rest_is_well() -> None:
    assert not report(SCRIPT, ALL + "def test_x(e2e): e2e.write_tutorial_block(x)\n").is_complete
    assert not report(SCRIPT.replace("mngr destroy foo", "mngr destroy 'foo"), ALL).is_complete


def test_observed_tests_are_counted_apart() -> None:
    marked = ALL.replace("def test_a", "@pytest.mark.observed\ndef test_a").replace(
        "def test_c", "@pytest.mark.observed\ndef test_c"
    )
    found = report(SCRIPT, marked + cite("d", "# put it away\nmngr destroy foo"))
    assert found.is_complete
    assert [one.observed for one in found.blocks] == [True, False, False]
    assert found.counts["observed"] == 1


# Rewriting


def mended(tmp_path: Path, script: str, tests: str) -> tuple[str, list[FixedCitation], list[TutorialFinding]]:
    path = tmp_path / "test_t.py"
    path.write_bytes(tests.encode())
    path.chmod(0o755)

    def look() -> TutorialReport:
        return compare_with_tests(parse_script(script, "t.sh"), read_tests(str(path), lambda _: "test_t.py"))

    done = fix_citations(look().stale, lambda _: str(path))
    assert path.stat().st_mode & 0o777 == 0o755
    assert [one.name for one in tmp_path.iterdir()] == ["test_t.py"]
    return path.read_bytes().decode(), done, look().findings


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '"""\n        # see\n        ls\n    """',
            '"""\n        # see\n        ls -l \\\\\n          -a\n    """',
        ),
        ("r'''\n  # see\n  ls\n'''", "r'''\n  # see\n  ls -l \\\n    -a\n'''"),
        ('dedent("""\\\n    # see\n    ls""")', 'dedent("""\\\n    # see\n    ls -l \\\\\n      -a""")'),
        ('"""# see\n       ls"""', '"""# see\n       ls -l \\\\\n         -a"""'),
        ('"# see\\nls"', '"# see\\nls -l \\\\\\n  -a"'),
        ("'# see\\nls\\n'", "'# see\\nls -l \\\\\\n  -a\\n'"),
        ('"# see\\n"\n    "ls\\n"\n', '"# see\\n"\n    "ls -l \\\\\\n"\n    "  -a\\n"\n'),
        ("'# see\\n' 'ls'", "'# see\\n' 'ls -l \\\\\\n' '  -a'"),
        ("r'ls -l -a'", "r'''\n    # see\n    ls -l \\\n      -a\n    '''"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_string_is_rewritten_as_it_is_written(tmp_path: Path, before: str, after: str, end: str) -> None:
    source = "# ä\ndef test_x(e2e):\n    e2e.write_tutorial_block({})  # ä\n    x = 'ä'\n".replace("\n", end)
    text, done, left = mended(tmp_path, "# see\nls -l \\\n  -a\n", source.format(before.replace("\n", end)))
    assert ([one.error for one in done], left) == ([None], [])
    assert text == source.format(after.replace("\n", end))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""It.\n\n    Tutorial block:\n        # see\n        ls\n\n    Then:\n        x\n    """',
         '"""It.\n\n    Tutorial block:\n        # see\n        cat <<E\n\n        \\\\n\n        E\n\n    Then:\n        x\n    """'),
        ("r'''Tutorial block:\n      # see\n      ls'''", "r'''Tutorial block:\n      # see\n      cat <<E\n\n      \\n\n      E'''"),
    ],
)  # fmt: skip
def test_a_docstring_is_rewritten_as_it_is_written(tmp_path: Path, before: str, after: str) -> None:
    source = "def test_x(e2e):\n    {}\n    pass\n"
    text, done, left = mended(tmp_path, "# see\ncat <<E\n\n\\n\nE\n", source.format(before))
    assert ([one.error for one in done], left) == ([None], [])
    assert text == source.format(after)


def test_several_in_one_file_are_rewritten_at_once(tmp_path: Path) -> None:
    script = "# one\nls -1\n\n# two\nls -2 \\\n  -a\n\n# three\nls -3\n"
    tests = (
        'def test_x(e2e):\n    """Tutorial block:\n        # one\n        ls\n\n    Tutorial block:\n        # two\n        ls\n    """\n'
        '    e2e.write_tutorial_block("# three\\nls"); e2e.write_tutorial_block("# nothing\\nof the kind")\n'
    )
    text, done, left = mended(tmp_path, script, tests)
    assert [one.error for one in done] == [None, None, None]
    assert [one.kind for one in left] == ["orphan"]
    assert text == tests.replace("# one\n        ls", "# one\n        ls -1").replace(
        "# two\n        ls", "# two\n        ls -2 \\\\\n          -a"
    ).replace("# three\\nls", "# three\\nls -3")


@pytest.mark.parametrize(
    ("script", "tests", "said"),
    [
        ("# see\nls -1\n\n# see\nls -2\n", cite("x", "# see\nls"), "the block in line 4 is as near"),
        ("# see\nls -1\n", cite("x", "# see\nls", "# see\nls -1"), "cites that block already"),
        ("# see\nls -1\n", cite("x", "# see\nls", "# see\nls -2"), "cites that block already"),
        ("# see\necho '''\n", "def test_x(e2e): e2e.write_tutorial_block(r'''# see\nls''')\n", "a raw string cannot hold"),
        ("# see\nls -1\n", 'def test_x(e2e):\n    """Tutorial block: # see"""\n', "behind its label"),
        ("# see\nls -1\n", 'def test_x(e2e):\n    "Tutorial block:\\n" "# see"\n', "several strings"),
    ],
)  # fmt: skip
def test_what_is_in_doubt_is_left_alone(tmp_path: Path, script: str, tests: str, said: str) -> None:
    text, done, _ = mended(tmp_path, script, tests)
    refused = [one for one in done if one.error]
    assert said in str(refused[0].error)
    assert (text == tests) == (len(refused) == len(done))


def test_a_gap_is_meant_rather_than_a_block_that_is_cited(tmp_path: Path) -> None:
    script = "# list one\nls -1\n\n# list two\nls -2 -l\n"
    tests = cite("a", "# list one\nls -1") + cite("b", "# list two\nls -2")
    text, done, left = mended(tmp_path, script, tests)
    assert ([one.error for one in done], left) == ([None], [])
    assert text == tests.replace("ls -2", "ls -2 -l")


def test_that_holds_though_the_other_is_a_little_nearer(tmp_path: Path) -> None:
    script = "# list what there is\nls -1\n\n# list what there is\nls -22\n"
    tests = cite("a", "# list what there is\nls -1") + cite("b", "# list what there is\nls -12")
    text, _, left = mended(tmp_path, script, tests)
    assert (text, left) == (tests.replace("ls -12", "ls -22"), [])


LINES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20),
    min_size=1,
)
QUOTED = st.sampled_from(
    ['"""\n    # same\n    old\n    """', "r'''# same\n old'''", "'# same\\nold'", '("# same\\n"\n  "old")']
)


@given(LINES, QUOTED)
def test_a_rewritten_citation_says_the_block_or_nothing_is_changed(lines: list[str], quoted: str) -> None:
    import tempfile

    script = parse_script("# same\nnew " + "\n".join(lines) + "\n", "t.sh")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "test_t.py"
        tests = f"def test_x(e2e):\n    e2e.write_tutorial_block({quoted})\n"
        path.write_text(tests, encoding="utf-8")
        found = compare_with_tests(script, read_tests(str(path), str))
        done = fix_citations(found.stale, str)
        (now,) = read_tests(str(path), str).citations
        if done and done[0].error is None:
            assert done[0].block == compute_block_id(now.text)
        else:
            assert normalize_text(now.text) == "# same\nold"
            assert path.read_text(encoding="utf-8") == tests
