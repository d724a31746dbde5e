"""Tests of the protocols that need no `typing` at run time."""

from __future__ import annotations

from mngr.base.python_process.light_protocol import Protocol, runtime_checkable


@runtime_checkable
class Labelled(Protocol):
    label: str

    def show(self) -> str:
        raise NotImplementedError


class Both:
    label = "a"

    def show(self) -> str:
        return self.label


class OnlyLabel:
    label = "a"


class Derived(Labelled):
    label = "b"


def test_an_object_with_all_members_is_an_instance() -> None:
    assert isinstance(Both(), Labelled)


def test_an_object_without_one_member_is_no_instance() -> None:
    assert not isinstance(OnlyLabel(), Labelled)
    assert not isinstance(object(), Labelled)


def test_an_attribute_of_the_object_itself_counts() -> None:
    thing = OnlyLabel()
    thing.show = lambda: "shown"  # type: ignore[attr-defined]
    assert isinstance(thing, Labelled)


def test_a_class_that_derives_from_a_protocol_has_only_its_own_instances() -> None:
    assert isinstance(Derived(), Derived)
    assert isinstance(Derived(), Labelled)
    assert not isinstance(Both(), Derived)
