import unittest

from thermostat import Thermostat


class ThermostatTest(unittest.TestCase):
    def test_heats_below_the_target(self):
        """Below the target temperature the heating is on, above it off."""
        device = Thermostat(target=20)
        device.measure(18)
        self.assertTrue(device.heating)
        device.measure(22)
        self.assertFalse(device.heating)
        self.assertEqual(device._backend.calls, 4)
