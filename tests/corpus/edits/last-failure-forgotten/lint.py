PAGES = {"pages": ["one word", "two words"], "drafts": ["a  b"]}


class Problem:
    def __init__(self, code, line):
        self.code = code
        self.line = line


def problems(folder):
    found = []
    for number, line in enumerate(PAGES[folder], 1):
        if "  " in line:
            found.append(Problem("E1", number))
    return found
