import subprocess


def test_words_of_a_refusal():
    """A refusal is said in these words; colours do not matter, the wording does."""
    done = subprocess.run(["shed", "open", "west"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "shed: the west door is locked\n"
