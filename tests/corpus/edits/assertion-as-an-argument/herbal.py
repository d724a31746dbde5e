EDGES = {"bay": "smooth", "oak": "lobed"}


def leaf(name):
    edge = EDGES[name]
    return {"name": name, "edge": edge}
