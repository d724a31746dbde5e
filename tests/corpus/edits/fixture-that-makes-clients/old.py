from relay import Client


def test_two_clients_talk():
    """What one says the other hears."""
    ada, bob = Client("ada"), Client("bob")
    ada.say("bob", "hi")
    assert bob.heard() == ["hi"]
    ada.close()
    bob.close()
