def parse(text):
    whole, _, cents = str(text).partition(",")
    if not cents.isdigit():
        raise ValueError(f"{text} is no amount")
    return int(whole) * 100 + int(cents)
