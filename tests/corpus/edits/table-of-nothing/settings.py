DEFAULTS = {"colour": "auto", "width": 80}


def load(path):
    found = dict(DEFAULTS)
    if path is not None:
        found["path"] = path
    return found
