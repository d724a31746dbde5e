from desk import Desk


class Office:
    def __init__(self):
        self.desk = Desk()

    def file(self, thing, drawer):
        self.desk.put(thing, drawer=drawer)

    def has(self, thing, drawer):
        assert self.desk.count(drawer) == 1
        assert self.desk.find(thing) == drawer


def test_a_letter_is_filed():
    """A letter goes into its drawer."""
    office = Office()
    office.file("letter", 2)
    office.has("letter", 2)
