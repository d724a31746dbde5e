class Backend:
    def __init__(self):
        self.calls = 0

    def switch(self, is_on):
        self.calls += 1
        return is_on


class Thermostat:
    def __init__(self, target):
        self.target = target
        self.heating = False
        self._backend = Backend()

    def measure(self, degrees):
        self._backend.switch(self.heating)
        self.heating = self._backend.switch(degrees < self.target)
