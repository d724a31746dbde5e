"""Add and remove things."""

from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_add(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # put something in
    pantry add rice
    """)
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry add rice")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("added rice to the larder")


def test_add_some(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # say how much of it
    pantry add rice --amount 2 --unit kg
    """)
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry add rice --amount 2 --unit kg")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("rice: 2 kg")


def test_add_on_a_shelf(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # say where it goes
    pantry add jam --place top
    """)
    expect(e2e.run("pantry init")).to_succeed()
    expect(e2e.run("pantry add jam --place top")).to_succeed()
    expect(e2e.run("pantry find jam").stdout).to_contain("jam is on the top shelf")


def test_add_half(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # half of something
    pantry add flour --amount 1.5 --unit kg
    """)
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry add flour --amount 1.5 --unit kg")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("flour: 1.5 kg")


def test_take(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # take something out
    pantry take rice --amount 2
    """)
    expect(e2e.run("pantry init && pantry add rice --amount 5")).to_succeed()
    result = e2e.run("pantry take rice --amount 2")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice: 3 left")


def test_take_half(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # half of it
    pantry take rice --amount 0.5
    """)
    expect(e2e.run("pantry init && pantry add rice --amount 5")).to_succeed()
    result = e2e.run("pantry take rice --amount 0.5")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice: 4.5 left")


def test_take_too_much(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # more than there is
    pantry take rice --amount 9
    """)
    expect(e2e.run("pantry init && pantry add rice --amount 5")).to_succeed()
    result = e2e.run("pantry take rice --amount 9")
    expect(result).to_fail(1)
    expect(result.stderr).to_contain("there is only 5 of rice")


def test_forget(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # there never was such a thing
    pantry forget rice
    """)
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    expect(e2e.run("pantry forget rice")).to_succeed()
    expect(e2e.run("pantry find rice")).to_fail(1)
