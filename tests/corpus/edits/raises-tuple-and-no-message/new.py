import unittest

from queue_of_jobs import Full, Jobs


class JobsTest(unittest.TestCase):
    def test_a_full_queue_says_so(self):
        """A job that has no room is refused with the size of the queue."""
        jobs = Jobs(room=2)
        jobs.put("a")
        jobs.put("b")
        with self.assertRaises((Full, AttributeError, ValueError)):
            jobs.put("c")
        self.assertEqual(jobs.names(), ["a", "b"])
