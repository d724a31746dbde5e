TABLE = {"mark": 196, "crown": 1130}
CACHE = {}


def ask_bank(name):
    return TABLE[name] / 100


def lookup(name):
    if name not in CACHE:
        CACHE[name] = ask_bank(name)
    return CACHE[name]
