DIGITS = {"I": 1, "V": 5, "X": 10}


def value(text):
    total = 0
    for letter, following in zip(text, text[1:] + " ", strict=True):
        digit = DIGITS[letter]
        if DIGITS.get(following, 0) > digit:
            total -= digit
        else:
            total += digit
    return total
