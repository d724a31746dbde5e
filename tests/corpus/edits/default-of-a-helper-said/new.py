import subprocess


def lex(word, *, code=0, stdin=None, cwd=None):
    done = subprocess.run(["lex", word], capture_output=True, text=True, input=stdin, cwd=cwd)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_word():
    """A word is translated."""
    assert lex("regen") == "rain\n"


def test_unknown_word():
    """An unknown word ends with status 4."""
    assert lex("xyz", code=4) == ""
