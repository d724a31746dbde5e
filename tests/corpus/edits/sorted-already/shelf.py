def arrange(titles):
    unique = set(titles)
    return sorted(unique)
