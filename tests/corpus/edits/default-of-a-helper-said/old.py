import subprocess


def lex(word):
    done = subprocess.run(["lex", word], capture_output=True, text=True)
    assert done.returncode == 0
    return done.stdout


def test_word():
    """A word is translated."""
    assert lex("regen") == "rain\n"
