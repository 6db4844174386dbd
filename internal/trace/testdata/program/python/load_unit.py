import unittest

import load


class Ratio(unittest.TestCase):
    def test_ratio(self):
        self.assertEqual(load.ratio(1, 2), 3)
