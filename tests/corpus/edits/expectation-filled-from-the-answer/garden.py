SIDES = ["west", "north", "south"]


def beds():
    known = [side for side in SIDES if len(side) > 3]
    return sorted(known)
