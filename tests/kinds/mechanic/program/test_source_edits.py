"""Edits at nodes of the syntax tree: every other byte stays unchanged."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.e2e.expectations import line_matching
from mngr.kinds.mechanic.program.source_edits import (
    PythonSource,
    format_literal,
    list_citations,
    merge_citations,
    replace_literal,
)
from mngr.kinds.mechanic.program.tutorial_citations import (
    find_nearest_block,
    has_block,
    rename_in_block,
    rewrite_citation,
)

SOURCE = '''"""Ünïcode."""
class TestA:
    def test_x(self, e2e): pass


if True:
    def test_x(e2e):
        e2e.write_tutorial_block("""
        # é
        one --a
        """); e2e.run("one --a")
'''


def test_the_function_of_a_node_id_is_found() -> None:
    module = PythonSource(SOURCE)
    inner, outer = module.find_test("t.py::TestA::test_x"), module.find_test("t.py::test_x[1-é]")
    assert inner and outer and inner.lineno == 3 and outer.lineno == 7
    assert module.find_test("t.py::test_y") is None
    with pytest.raises(ValueError, match="this is not valid Python"):
        PythonSource("def (")


def test_a_rewritten_citation_keeps_its_layout() -> None:
    module = PythonSource(SOURCE)
    node = list_citations(module.tree)[0]
    edited = module.apply_splices([rewrite_citation(module, node, "# é\ntwo --b \\\n  --c")])
    assert edited == SOURCE.replace("        one --a\n", "        two --b \\\\\n          --c\n")
    assert merge_citations(SOURCE, edited.replace('run("one', 'run("two')) == edited
    windows = PythonSource(SOURCE.replace("\n", "\r\n"))
    assert windows.apply_splices([rewrite_citation(windows, list_citations(windows.tree)[0], "x\ny")]).count(
        "\r\n"
    ) == SOURCE.count("\n")


def test_a_citation_in_a_docstring_is_rewritten() -> None:
    old = '''def test_x(e2e):
    """About it.

    Tutorial block:
        # all
        one --a

    Steps:
        one
    """
'''
    module = PythonSource(old)
    [citation] = list_citations(module.tree)
    edited = module.apply_splices([rewrite_citation(module, citation, "# all of them\none --b\ntwo")])
    assert edited == old.replace("# all\n        one --a", "# all of them\n        one --b\n        two")
    assert merge_citations(old, edited) == edited


@pytest.mark.parametrize(
    ("source", "new", "made"),
    [
        ('"a --old b"', "a --new b", '"a --new b"'),
        ("'''\n  a --old\n  b\n'''", "\n  a --new\n  b\n", "'''\n  a --new\n  b\n'''"),
        (r'"\x61 --old"', "a --new", r'"\x61 --new"'),
        ('"it"', 'it "is"', "'it \"is\"'"),
        ('"aa"', "aaa", '"aaa"'),
    ],
)
def test_a_literal_is_edited_in_place(source: str, new: str, made: str) -> None:
    assert replace_literal(source, ast.literal_eval(source), new) == made


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=12),
        min_size=1,
        max_size=4,
    )
)
def test_a_formatted_literal_holds_the_same_lines(rows: list[str]) -> None:
    for old in ('"x"', '"""\n        x\n    """', "r'''\n    x\n    '''"):
        value = ast.literal_eval(format_literal("\n".join(rows), old, "    "))
        assert line_matching.split_expected(value) == line_matching.split_expected("\n".join(rows)), old


SCRIPT = "#!/bin/sh\n\n# list all\nx list --old\n\n# count them\nx count --old\n\n# a page\ncat <<E\nx\n\ny\nE\n"


def test_blocks_of_a_script_are_found() -> None:
    assert has_block(SCRIPT, "  # list all\n    x list --old\n")
    assert has_block(SCRIPT, "# a page\ncat <<E\nx\n\ny\nE")
    assert not has_block(SCRIPT, "x list --old") and not has_block(SCRIPT, "# list all\nx list")
    assert find_nearest_block(SCRIPT, "# list them all\nx list --old -v") == "# list all\nx list --old"
    assert find_nearest_block(SCRIPT, "# page\ncat <<E\nx") is None
    assert find_nearest_block(SCRIPT + "\n# list al\nx list --old\n", "# list a\nx list --old") is None
    assert find_nearest_block(SCRIPT, "something else entirely") is None


def test_an_option_is_renamed_in_one_block_only() -> None:
    renamed = rename_in_block(SCRIPT, "# list all\nx list --old", "--old", "--new")
    assert renamed == SCRIPT.replace("list --old", "list --new")
