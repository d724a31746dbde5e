TABLE = {"pound": 117, "crown": 1130}


def ask_bank(name):
    return TABLE[name] / 100


def lookup(name, source=ask_bank):
    rate = source(name)
    return round(rate, 2)
