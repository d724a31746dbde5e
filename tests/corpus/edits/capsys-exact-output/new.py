from todo.cli import main


def test_list_shows_open_items(capsys, todo_file):
    todo_file.write_text("[ ] milk\n[x] bread\n[ ] eggs\n")
    assert main(["list", "--file", str(todo_file)]) == 0
    captured = capsys.readouterr()
    assert captured.out == "1. milk\n2. eggs\n"
    assert captured.err == ""
