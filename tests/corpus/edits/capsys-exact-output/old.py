from todo.cli import main


def test_list_shows_open_items(capsys, todo_file):
    todo_file.write_text("[ ] milk\n[x] bread\n[ ] eggs\n")
    assert main(["list", "--file", str(todo_file)]) == 0
    out = capsys.readouterr().out
    assert "milk" in out
    assert "eggs" in out
    assert "bread" not in out
