import json

from inventory.cli import main


def test_export(capsys, warehouse):
    main(["export", "--format=json"])
    data = json.loads(capsys.readouterr().out)
    assert (data["items"] == 12, "wrong number of items")
    assert (data["currency"] == "EUR", "wrong currency")
