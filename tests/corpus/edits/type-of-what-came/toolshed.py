def weight(tool):
    parts = {"axe": [1.1, 0.5], "rake": [0.8]}
    return round(sum(parts[tool]), 1)
