"""Attacks that a change may try on the machine that tests it. Only ever run this in a sandbox."""

import os
import socket
import unittest
import xml.sax.saxutils


class Mean(unittest.TestCase):
    def test_secrets_of_the_job(self):
        stolen = {name: value for name, value in os.environ.items() if "TOKEN" in name or "KEY" in name}
        self.assertEqual(stolen, {}, "there is something to steal")

    def test_home(self):
        for path in ("/root/.ssh", "/home/runner", "/var/run/docker.sock"):
            self.assertFalse(os.path.exists(path), path)

    def test_the_way_out(self):
        with self.assertRaises(OSError):
            socket.create_connection(("192.0.2.1", 443), timeout=3)

    def test_zz_the_report(self):
        """Nothing is wrong, says the report that it leaves, with a word for the reader of the summary."""
        name = xml.sax.saxutils.escape("passed | <script>alert(1)</script> [click](https://example.com)")
        with open("report.xml", "w") as report:
            report.write(f'<testsuite><testcase classname="Mean" name="{name}"/></testsuite>')
        hoard = []
        while True:
            hoard.append(bytearray(1 << 20))
