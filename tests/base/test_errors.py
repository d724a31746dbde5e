"""Tests of the hint that names a similar word."""

from __future__ import annotations

import pytest

from mngr.base.errors import suggest_closest


@pytest.mark.parametrize(
    ("word", "known"),
    [("fo", "foo"), ("fxi", "fix"), ("pot", "poet"), ("statez", "states"), ("crate", "create"), ("setpu", "setup")],
)
def test_a_misspelt_word_gets_its_nearest_word_as_a_hint(word: str, known: str) -> None:
    assert suggest_closest(word, ["unrelated", known]) == f"did you mean {known!r}?"


@pytest.mark.parametrize(
    ("word", "known"),
    [("fix-login", "fix-logout"), ("bob", "rita"), ("w-2", "w-1"), ("a", "b"), ("test_old_name", "test_new_home")],
)
def test_a_different_word_is_never_suggested(word: str, known: str) -> None:
    assert suggest_closest(word, [known]) is None


def test_the_nearest_of_several_similar_words_is_suggested() -> None:
    assert suggest_closest("claud", ["cloud", "claude", "clad"]) == "did you mean 'clad'?"
    assert suggest_closest("paints", ["paint", "prints"]) == "did you mean 'paint'?"


def test_an_empty_list_gives_no_hint() -> None:
    assert suggest_closest("foo", []) is None
