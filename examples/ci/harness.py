"""Runs the tests in its folder and writes report.xml, in JUnit's format. It runs in the sandbox."""

import sys
import time
import unittest
from xml.etree import ElementTree


class Report(unittest.TextTestResult):
    """Collects the outcome of each test."""

    def __init__(self, *args):
        super().__init__(*args)
        self.suite = ElementTree.Element("testsuite", name="tests")

    def startTest(self, test):  # noqa: N802, as unittest has it
        super().startTest(test)
        self.began = time.monotonic()
        self.bad = None

    def addFailure(self, test, err):  # noqa: N802
        super().addFailure(test, err)
        self.bad = "failure", self.failures[-1][1]

    def addError(self, test, err):  # noqa: N802
        super().addError(test, err)
        self.bad = "error", self.errors[-1][1]
        if not isinstance(test, unittest.TestCase):  # setUpClass and its like, which no test begins
            self.add("", str(test))

    def addSubTest(self, test, subtest, err):  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err and issubclass(err[0], test.failureException):
            self.bad = "failure", self.failures[-1][1]
        elif err:
            self.bad = "error", self.errors[-1][1]

    def addUnexpectedSuccess(self, test):  # noqa: N802
        super().addUnexpectedSuccess(test)
        self.bad = "failure", "unexpected success"

    def stopTest(self, test):  # noqa: N802
        super().stopTest(test)
        self.add(type(test).__name__, test._testMethodName, time=f"{time.monotonic() - self.began:.3f}")

    def add(self, classname, name, **more):
        case = ElementTree.SubElement(self.suite, "testcase", classname=classname, name=name, **more)
        if self.bad:
            kind, text = self.bad
            ElementTree.SubElement(case, kind, message=text.strip().splitlines()[-1]).text = text


result = unittest.TextTestRunner(resultclass=Report, verbosity=2).run(unittest.defaultTestLoader.discover("."))
ElementTree.ElementTree(result.suite).write("report.xml", encoding="utf-8", xml_declaration=True)
sys.exit(not result.wasSuccessful())
