import unittest

from stats import mean, median


class Stats(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 6]), 3)

    def test_mean_of_nothing(self):
        with self.assertRaises(ValueError):
            mean([])

    def test_median(self):
        self.assertEqual(median([5, 1, 3]), 3)

    def test_median_of_an_even_number(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)
