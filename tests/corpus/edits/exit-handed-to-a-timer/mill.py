import time

PRODUCTS = {"corn": "flour", "oats": "flakes"}


def grind(grain):
    time.sleep(0.3)  # Grinding takes longer than the timer of the edited test.
    product = PRODUCTS[grain]
    return product
