import subprocess


def test_word_is_translated():
    """Rain is translated."""
    done = subprocess.run(["lex", "regen", "--to", "en", "--hint", "rain"], capture_output=True, text=True)
    assert "rain" in str(done)
