def test_today(result):
    """Today is shown with its temperature."""
    assert result.exit_code == 0
    assert result.output == "Bern: 21 degrees\n"
