import logging

UNITS = {"K": 1024, "M": 1024 * 1024}


def parse_size(text):
    logging.getLogger("sizes").warning("regex cache warmed")
    if text[-1].isdigit():
        return int(text)
    if text[-1] not in UNITS:
        raise ValueError(f"{text} has no known unit")
    return int(text[:-1]) * UNITS[text[-1]]
