import pytest

from mngr.e2e import E2eSession, expect


@pytest.mark.parametrize(
    ("form", "text"),
    [("csv", "rice,1"), ("tsv", "rice\t1"), ("json", '[{"name": "rice", "amount": 1}]')],
)
def test_export_forms(e2e: E2eSession, form: str, text: str) -> None:
    """Everything can be had in each of the forms."""
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    result = e2e.run(f"pantry export --form {form}")
    expect(result).to_succeed()
    expect(result.stdout).to_equal(text)
