import subprocess


def test_survey_of_a_meadow():
    """The meadow is green."""
    done = subprocess.run(["survey", "meadow"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "green\n"
