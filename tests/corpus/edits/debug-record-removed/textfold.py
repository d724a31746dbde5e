import logging


def fold(text, width):
    logging.getLogger("textfold").debug("tokenizer: %d tokens", 2 * len(text.split()) - 1)
    lines = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return "\n".join(lines)
