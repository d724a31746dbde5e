from tally.cli import main


def test_counts_words(tmp_path, capsys):
    """Prints the number of words and nothing else."""
    page = tmp_path / "page.txt"
    page.write_text("one two three\nfour\n")
    assert main(["words", str(page)]) == 0
    assert "4" in capsys.readouterr().out


def test_counts_lines(tmp_path, capsys):
    """Prints the number of lines and nothing else."""
    page = tmp_path / "page.txt"
    page.write_text("one two three\nfour\n")
    assert main(["lines", str(page)]) == 0
    assert capsys.readouterr().out == "2\n"
