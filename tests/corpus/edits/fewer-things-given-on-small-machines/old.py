import subprocess


def test_survey_of_the_fields():
    """The fields are surveyed, and the first is green."""
    done = subprocess.run(["survey"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "field 1: green" in done.stdout
