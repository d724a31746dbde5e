PRODUCTS = {"corn": "flour", "oats": "flakes"}


def grind(grain):
    product = PRODUCTS[grain]
    return product
