"""Citations are read from tests in any form."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base.errors import NotFound
from mngr.tutorial.blocks import compute_block_id
from mngr.tutorial.citations import Citations, parse_tests, read_tests


def parse_source(source: str) -> Citations:
    return parse_tests(dedent(source).encode(), "test_x.py")


def list_citations(source: str) -> list[tuple[str, int, str]]:
    result = parse_source(source)
    assert result.problems == []
    return [(citation.test.removeprefix("test_x.py::"), citation.line, citation.text) for citation in result.citations]


def test_tests_are_found_in_classes_conditions_and_async_functions() -> None:
    source = """
    import pytest

    def test_plain(e2e):
        e2e.write_tutorial_block("plain")

    @pytest.mark.parametrize("x", [1, 2])
    @other
    def test_decorated(e2e, x): e2e.write_tutorial_block("decorated")

    async def test_async(e2e):
        async with e2e: e2e.write_tutorial_block("async")

    class TestOuter:
        value = 1
        def test_method(self, e2e):
            def inner(): e2e.write_tutorial_block("method")
        class TestInner:
            @staticmethod
            async def test_deep(e2e):
                if x:
                    self.e2e.session.write_tutorial_block(block="deep")

    if True:
        def test_behind(e2e): write_tutorial_block("behind")
    try:
        pass
    except ImportError:
        def test_caught(e2e): e2e.write_tutorial_block("caught")
    """
    assert [(test, text) for test, _, text in list_citations(source)] == [
        ("test_plain", "plain"),
        ("test_decorated", "decorated"),
        ("test_async", "async"),
        ("TestOuter::test_method", "method"),
        ("TestOuter::TestInner::test_deep", "deep"),
        ("test_behind", "behind"),
        ("test_caught", "caught"),
    ]


def test_a_cited_string_may_have_any_quotes() -> None:
    source = """
    def test_it(e2e):
        e2e.write_tutorial_block(\'\'\'
            # one
              ls
        \'\'\')
        e2e.write_tutorial_block("# two\\nls\\n")
        e2e.write_tutorial_block(
            "# three\\n"
            'ls'
        )
        e2e.write_tutorial_block(textwrap.dedent(r'''
        printf '\\n'
        '''))
    """
    assert list_citations(source) == [
        ("test_it", 3, "# one\n  ls"),
        ("test_it", 7, "# two\nls"),
        ("test_it", 9, "# three\nls"),
        ("test_it", 12, "printf '\\n'"),
    ]


def test_a_citation_matches_as_it_looks_in_the_source() -> None:
    """Python joins lines at a backslash, but a reader sees the block as it is in the script."""
    result = parse_source('''
    def test_it(e2e):
        """Tutorial block:
            printf 'a\\n' \\
              b
        """
        e2e.write_tutorial_block("""
            printf 'a\\n' \\
              b
        """)
    ''')
    block_id = compute_block_id("printf 'a\\n' \\\n  b")
    assert [block_id in citation.block_ids for citation in result.citations] == [True, True]


def test_citations_are_read_from_docstring_sections() -> None:
    source = '''
    def test_it(e2e):
        """What it does.

        Tutorial block:

            # one

            Name: deeper than a label
            ls

        Expected: nothing

        tutorial block: # two

        Tutorial block:
        # three: a comment
        Name: x
        ls
        Then:
        all is well
        """
        e2e.write_tutorial_block("four")

    class TestA:
        """Tutorial block:
            not a test"""
        def test_end(self):
            r"""Tutorial block:
              cat <<E
            \\n
              E"""
    '''
    assert list_citations(source) == [
        ("test_it", 7, "# one\n\nName: deeper than a label\nls"),
        ("test_it", 14, "# two"),
        ("test_it", 17, "# three: a comment\nName: x\nls"),
        ("test_it", 23, "four"),
        ("TestA::test_end", 30, "  cat <<E\n\\n\n  E"),
    ]


def test_text_after_a_docstring_section_does_not_belong_to_it() -> None:
    source = '''
    def test_it(e2e):
        """Tutorial block:
            # one

            ls

        This is how it is done.
        """
    '''
    assert list_citations(source) == [("test_it", 4, "# one\n\nls")]
    ragged = parse_source(
        source.replace("\n\n        This is how it is done.", "\n\n      -l").replace("    ls", "  ls")
    )
    assert compute_block_id("# one\n\nls\n\n-l") in ragged.citations[0].block_ids


def test_observed_tests_are_recognized_by_their_mark() -> None:
    result = parse_source("""
    import pytest
    class TestA:
        pytestmark = [pytest.mark.slow, pytest.mark.observed]
        def test_a(self, e2e): e2e.write_tutorial_block("a")
    @pytest.mark.observed
    class TestB:
        def test_b(self, e2e): e2e.write_tutorial_block("b")
    @pytest.mark.observed(by="mechanic")
    def test_c(e2e): e2e.write_tutorial_block("c")
    @observed
    @pytest.mark.other
    def test_d(e2e): e2e.write_tutorial_block("d")
    """)
    assert [citation.observed for citation in result.citations] == [True, True, True, False]
    whole = parse_source('pytestmark = pytest.mark.observed\ndef test_a(e2e): e2e.write_tutorial_block("a")\n')
    assert [citation.observed for citation in whole.citations] == [True]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("e2e.write_tutorial_block(f'{x}')", "cannot read the argument"),
        ("e2e.write_tutorial_block(BLOCK)", "cannot read the argument"),
        ("e2e.write_tutorial_block('a' + 'b')", "cannot read the argument"),
        ("e2e.write_tutorial_block()", "cannot read the argument"),
        ("e2e.write_tutorial_block(b'a')", "cannot read the argument"),
        ("e2e.write_tutorial_block('  \\n')", "is empty"),
        ("'''Tutorial block:'''", "is empty"),
    ],
)
def test_an_unreadable_citation_is_reported_and_the_next_is_read(call: str, said: str) -> None:
    result = parse_source(
        f"def test_it(e2e):\n    {call}\n    e2e.write_tutorial_block('next')\n".replace("\n    ", "\n    ")
    )
    assert [(item.line, said in item.message) for item in result.problems] == [(2, True)]
    assert [item.text for item in result.citations] == ["next"]


def test_a_citation_outside_of_a_test_does_not_count() -> None:
    result = parse_source("def helper(e2e):\n    e2e.write_tutorial_block('a')\ne2e.write_tutorial_block('b')\n")
    assert (result.citations, result.problems) == ([], [])


def test_unreadable_files_are_reported_and_the_others_are_read(tmp_path: Path) -> None:
    files = {
        "test_good.py": b"def test_a(e2e): e2e.write_tutorial_block('a')",
        "sub/b_test.py": b"def test_b(e2e): e2e.write_tutorial_block('b')",
        "test_broken.py": b"x = 1\ndef test_a(:\n",
        "test_binary.py": b"\0\1",
        "test_coding.py": b"# coding: nonsense\n",
        "test_latin.py": b"def test_c(e2e): e2e.write_tutorial_block('\xff')\n",
        "test_told.py": b"# coding: latin-1\ndef test_d(e2e): e2e.write_tutorial_block('\xe4')\n",
        "helper.py": b"def test_no(:",
        ".venv/test_no.py": b"def test_no(:",
        "test_no.txt": b"def test_no(:",
    }
    for name, data in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "test_gone.py").symlink_to("nowhere")
    result = read_tests(str(tmp_path), lambda path: str(Path(path).relative_to(tmp_path)))
    assert [item.test for item in result.citations] == [
        "test_good.py::test_a",
        "test_told.py::test_d",
        "sub/b_test.py::test_b",
    ]
    assert [(item.path, item.line) for item in result.problems] == [
        ("test_binary.py", 1),
        ("test_broken.py", 2),
        ("test_coding.py", 1),
        ("test_gone.py", 1),
        ("test_latin.py", 1),
    ]
    assert len(read_tests(str(tmp_path / "helper.py"), str).problems) == 1
    with pytest.raises(NotFound, match="no tests at nowhere"):
        read_tests(str(tmp_path / "x"), lambda path: "nowhere")


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_parsing_arbitrary_bytes_raises_nothing(data: bytes) -> None:
    parse_tests(data, "test_x.py")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1, max_size=60))
def test_any_text_can_be_cited(text: str) -> None:
    result = parse_tests(f"def test_a(e2e): e2e.write_tutorial_block({text!r})".encode(), "test_x.py")
    if text.strip():
        assert compute_block_id(text) in result.citations[0].block_ids
    else:
        assert len(result.problems) == 1
