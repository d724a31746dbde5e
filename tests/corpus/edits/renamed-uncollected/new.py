import unittest

from ratelimit import Bucket, Exceeded


class BucketTest(unittest.TestCase):
    def setUp(self):
        self.now = 0.0
        self.bucket = Bucket(rate=2, burst=3, clock=lambda: self.now)

    def check_burst_then_refuse(self):
        for _ in range(3):
            self.bucket.take()
        with self.assertRaises(Exceeded) as ctx:
            self.bucket.take()
        self.assertAlmostEqual(ctx.exception.retry_after, 0.5)

    def test_refill(self):
        self.bucket.take(3)
        self.now = 1.0
        self.assertEqual(self.bucket.available, 2)
