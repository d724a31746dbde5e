"""List and find things."""

from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture(autouse=True)
def stocked(e2e: E2eSession, pantry_on_path: None) -> None:
    steps = [
        "init",
        "add rice --amount 10 --unit kg",
        "add jam --amount 3 --shelf top",
        "add beans --amount 2",
    ]
    expect(e2e.run(" && ".join(f"pantry {step}" for step in steps))).to_succeed()


def test_list(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # everything
    pantry list
    """)
    result = e2e.run("pantry list")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        NAME   AMOUNT  SHELF
        beans  2       middle
        jam    3       top
        rice   10 kg   middle
    """)


def test_list_sorted(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # sorted by name
    pantry list --sort item
    """)
    result = e2e.run("pantry list --order item")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        ITEM...
        beans...
        jam...
        rice...
    """)


def test_list_the_most_first(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # the most first
    pantry list --sort amount
    """)
    result = e2e.run("pantry list --sort amount")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        ITEM   AMOUNT  SHELF
        rice   10 kg   middle
        jam    3       top
        beans  2       middle
    """)


def test_list_for_a_spreadsheet(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # as a spreadsheet
    pantry list --csv
    """)
    result = e2e.run("pantry list --csv")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("item,amount,shelf", "jam,3,top")


def test_list_halves(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # halves are shown, too
    pantry add milk --amount 2.5 --unit l
    pantry list
    """)
    expect(e2e.run("pantry add milk --amount 2.5 --unit l")).to_succeed()
    result = e2e.run("pantry list")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("2.5 l")


def test_find(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # where is it
    pantry find ric
    """)
    result = e2e.run("pantry find ric")
    expect(result.stdout).to_contain("rice is on the middle shelf")


def test_find_nothing(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # what is not there
    pantry find plums
    """)
    result = e2e.run("pantry find plums")
    expect(result).to_fail(1)
    expect(result.stderr).to_contain("nothing is called plums")


def test_low(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # what runs low
    pantry low
    """)
    result = e2e.run("pantry low")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("1 things run low")


def test_count(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # how many things are there
    pantry count
    """)


def test_suggest(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # what to cook with
    pantry suggest
    """)
    expect(e2e.run("pantry forget jam")).to_succeed()
    result = e2e.run("pantry suggest")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("how about rice?")
