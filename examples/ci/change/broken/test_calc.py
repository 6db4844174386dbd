import unittest

from calc import mean


class Mean(unittest.TestCase):
    def test_of_some(self):
        self.assertEqual(mean([1, 2, 6]), 3)

    def test_of_nothing(self):
        self.assertEqual(mean([]), 0)
