from journal.cli import main


def test_first_entry_of_the_day(capsys):
    """A new journal begins with the day."""
    assert main(["write", "sun", "--at", "0"]) == 0
    assert main(["show"]) == 0
    assert capsys.readouterr().out == "1970-01-01\n  00:00 sun\n"


def test_unknown_command(capsys):
    """An unknown command is a usage error."""
    assert main(["frob"]) == 2
    assert "frob" in capsys.readouterr().err
