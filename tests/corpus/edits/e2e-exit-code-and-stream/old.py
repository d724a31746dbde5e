from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_convert(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # from miles to kilometres
    units 5 mi km
    """)
    result = e2e.run("units 5 mi km")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("8.04672 km")


def test_unknown_unit(e2e: E2eSession) -> None:
    """An unknown unit is a mistake of use: exit code 2, message on stderr."""
    result = e2e.run("units 5 mi parsnip")
    expect(result).to_fail()
    expect(result.output).to_contain("unknown unit: parsnip")
