"""Which paths a change of a kind may touch."""

from __future__ import annotations

import pytest

from mngr.base.errors import UsageError
from mngr.tmr.verify.claim import CHANGE_KINDS
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.path_policy import DEFAULT_POLICY, check_paths, extend_policy


def _rules(*changes: ChangedFile, kind: str = "FIX_TEST", shared: bool = False) -> dict[str, str]:
    return {found.rule: found.level for found in check_paths(changes, kind, DEFAULT_POLICY, shared=shared)}


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("FIX_TEST", "tests/e2e/test_list.py"),
        ("ADD_TEST", "tests/data/in.csv"),
        ("FIX_TUTORIAL", "tutorial.sh"),
        ("FIX_DOC", "docs/guide/start.md"),
        ("FIX_IMPL", "src/shop/price.py"),
    ],
)
def test_each_kind_has_its_own_paths(kind: str, path: str) -> None:
    assert _rules(ChangedFile(path=path), kind=kind) == {}


@pytest.mark.parametrize(
    ("kind", "path", "rule"),
    [
        ("FIX_TEST", "src/shop/price.py", "policy-implementation"),
        ("IMPROVE_TEST", "tutorial.sh", "policy-tutorial"),
        ("FIX_IMPL", "tests/conftest.py", "policy-conftest"),
        ("FIX_IMPL", ".github/workflows/ci.yml", "policy-ci"),
        ("FIX_IMPL", "uv.lock", "policy-lock"),
        ("FIX_IMPL", "sub/pyproject.toml", "policy-config"),
        ("FIX_IMPL", ".GitAttributes", "policy-config"),
        ("FIX_IMPL", "src/sitecustomize.py", "policy-startup"),
        ("FIX_DOC", "src/shop/price.py", "policy-implementation"),
        ("NO_SUCH_KIND", "README.md", "policy-doc"),
    ],
)
def test_what_a_kind_may_not_touch_is_refused(kind: str, path: str, rule: str) -> None:
    assert _rules(ChangedFile(path=path), kind=kind) == {rule: "refuse"}


def test_a_fix_with_its_test_in_one_commit_is_a_note_for_they_can_be_told_apart() -> None:
    assert _rules(ChangedFile(path="tests/test_price.py"), kind="FIX_IMPL") == {"policy-test": "note"}


def test_a_shared_cause_may_touch_conftest_and_nothing_else_of_its_like() -> None:
    assert _rules(ChangedFile(path="tests/conftest.py"), shared=True) == {"policy-conftest": "note"}
    assert _rules(ChangedFile(path="tox.ini"), shared=True) == {"policy-config": "refuse"}


def test_a_finding_has_the_line_that_was_touched() -> None:
    change = ChangedFile(path="src/a.py", old="a\nb\nc\n", new="a\nb\nd\n")
    (found,) = check_paths([change], "FIX_TEST")
    assert (found.path, found.line) == ("src/a.py", 3)


TEST = '''
def test_it(e2e):
    """Rice costs three."""
    e2e.write_tutorial_block("""
    # what does it cost
    shop price rice
    """)
    assert e2e.run("shop price rice").stdout == "3"
'''


@pytest.mark.parametrize("kind", CHANGE_KINDS)
def test_a_docstring_is_a_contract(kind: str) -> None:
    change = ChangedFile(path="tests/test_it.py", old=TEST, new=TEST.replace("three", "four"))
    found = [one for one in check_paths([change], kind) if one.rule == "policy-docstring"]
    assert [one.level for one in found] == ["note" if kind == "FIX_TUTORIAL" else "refuse"]
    assert found[0].line == 3


def test_a_cited_block_is_a_contract_but_its_indentation_is_not() -> None:
    change = ChangedFile(
        path="tests/test_it.py", old=TEST, new=TEST.replace("\n    shop price rice", "\n    shop price")
    )
    assert _rules(change) == {"policy-block": "refuse"}
    moved = TEST.replace("\n    # what", "\n        # what").replace("\n    shop price", "\n        shop price")
    assert _rules(change.replace(new=moved)) == {}


def test_words_of_the_implementation_are_documentation() -> None:
    old = '"""A shop."""\nRATE = 3\n'
    words = ChangedFile(path="src/shop.py", old=old, new=old.replace("A shop", "The shop"))
    assert _rules(words, kind="FIX_DOC") == {"policy-implementation": "note"}
    assert _rules(words.replace(new=old.replace("3", "4")), kind="FIX_DOC") == {"policy-implementation": "refuse"}


@pytest.mark.parametrize(
    ("change", "rule", "level"),
    [
        (ChangedFile(path="tests/a.bin", status="A", binary=True), "policy-binary", "refuse"),
        (ChangedFile(path="tests/big.txt", status="A", size=1_000_001), "policy-large", "refuse"),
        (ChangedFile(path="tests/a.sh", new_mode="100755"), "policy-mode", "refuse"),
        (ChangedFile(path="tests/a.sh", status="A", new_mode="100755"), "policy-mode", "note"),
        (ChangedFile(path="tests/sub", status="A", new_mode="160000"), "policy-module", "refuse"),
        (
            ChangedFile(path="tests/a", status="A", new_mode="120000", new="../../etc/passwd"),
            "policy-link",
            "refuse",
        ),
        (ChangedFile(path="tests/a", status="A", new_mode="120000", new="/etc/passwd"), "policy-link", "refuse"),
        (
            ChangedFile(path="tests/a", status="A", new_mode="120000", new="../.git/config"),
            "policy-link",
            "refuse",
        ),
        (ChangedFile(path="tests/a", status="A", new_mode="120000", new="data/b"), "policy-link", "note"),
        (ChangedFile(path="tests/a\x1b[2Jb.py"), "policy-name", "refuse"),
        (ChangedFile(path="tests/a\u202eyp.py"), "policy-name", "refuse"),
        (ChangedFile(path="tests/../src/a.py"), "policy-name", "refuse"),
        (ChangedFile(path="tests/.GIT/hooks/x"), "policy-name", "refuse"),
        (ChangedFile(path="tests/.g\u200cit/x"), "policy-name", "refuse"),
        (ChangedFile(path="tests/test_a.py", status="D"), "policy-deleted", "refuse"),
        (ChangedFile(path="tests/json.py", status="A"), "policy-shadow", "refuse"),
    ],
)
def test_what_comes_with_a_change(change: ChangedFile, rule: str, level: str) -> None:
    assert _rules(change)[rule] == level


def test_what_was_large_or_a_program_already_is_nobodys_offence() -> None:
    change = ChangedFile(path="tests/a.py", old_mode="100755", new_mode="100755", old_size=3_000_000, size=2_999_999)
    assert _rules(change) == {}


def test_a_rename_out_of_the_program_touches_it() -> None:
    change = ChangedFile(path="tests/a.py", old_path="src/a.py", status="R")
    assert _rules(change) == {"policy-implementation": "refuse"}


def test_a_project_extends_the_table() -> None:
    policy = extend_policy(
        DEFAULT_POLICY,
        {
            "large": 10,
            "binary": ["tests/golden/*.png"],
            "config": ["shop.ini"],
            "vendored": {"paths": ["third/**"], "allow": ["FIX_IMPL"], "level": "note"},
            "doc": {"note": []},
        },
    )

    def rules(change: ChangedFile, kind: str) -> dict[str, str]:
        return {found.rule: found.level for found in check_paths([change], kind, policy)}

    assert rules(ChangedFile(path="tests/golden/a.png", binary=True, size=11), "FIX_TEST") == {"policy-large": "refuse"}
    assert rules(ChangedFile(path="etc/shop.ini"), "FIX_IMPL") == {"policy-config": "refuse"}
    assert rules(ChangedFile(path="third/a/b.c"), "FIX_IMPL") == {}
    assert rules(ChangedFile(path="third/a/b.c"), "FIX_TEST") == {"policy-vendored": "note"}
    assert rules(ChangedFile(path="README.md"), "FIX_TEST") == {"policy-doc": "refuse"}


@pytest.mark.parametrize(
    "table",
    [
        {"large": "much"},
        {"ci": 3},
        {"ci": {"pats": []}},
        {"ci": {"allow": ["FIX"]}},
        {"ci": {"level": "high"}},
    ],
)
def test_a_table_that_says_nothing_sensible_is_an_error(table: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        extend_policy(DEFAULT_POLICY, table)
