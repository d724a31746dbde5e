LITRES = {"north": 40, "south": 7}


def flow(side):
    spring = 2 if side == "north" else 0
    return LITRES[side] + spring
