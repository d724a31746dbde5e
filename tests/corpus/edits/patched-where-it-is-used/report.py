def total(rows):
    return sum(rows)


def build(rows):
    count = len(rows)
    return {"sum": total(rows), "count": count}
