from typer.testing import CliRunner

from notebookctl.app import app

runner = CliRunner()


def test_create():
    """`create` prints "Created notebook NAME."."""
    with runner.isolated_filesystem():
        result = runner.invoke(app, ["create", "lab"])
    assert result.exit_code == 0
    assert result.stdout == "Created notebook lab.\n"


def test_create_twice():
    """A notebook that is there is not created again, and the exit code is 1."""
    with runner.isolated_filesystem():
        runner.invoke(app, ["create", "lab"])
        result = runner.invoke(app, ["create", "lab"])
    assert result.exit_code == 1
    assert "lab exists" in result.stdout
