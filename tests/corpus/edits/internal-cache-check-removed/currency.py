class Rates:
    def __init__(self, table):
        self.table = table
        self._memo = {}

    def convert(self, amount, source, target):
        if source == target:
            return amount
        self._memo[amount] = round(amount * self.table[target], 2)
        return self._memo[amount]
