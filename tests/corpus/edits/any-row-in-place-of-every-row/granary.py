class Row:
    def __init__(self, weight):
        self.weight = weight

    @property
    def state(self):
        return "good" if self.weight > 2 else "bad"


ROWS = {"north": [5, 4, 3], "south": [1]}


def rows(side):
    return [Row(weight) for weight in ROWS[side]]
