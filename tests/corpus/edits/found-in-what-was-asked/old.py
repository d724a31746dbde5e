import subprocess


def test_word_is_translated():
    """Rain is translated."""
    done = subprocess.run(["lex", "regen", "--to", "en"], capture_output=True, text=True)
    assert "rain" in done.stdout
