"""Makes RESULTS/junit.xml and RESULTS/summary.md from a sandbox's files in RESULTS/raw. Its exit status reports whether
the tests pass.

The authors of the tests control the report. So the script reads it as an untrusted file: with size limits, without a
document type, and only for the expected elements. It writes both files anew from those.
"""

import json
import pathlib
import re
import sys
from xml.etree import ElementTree

LARGEST = 1 << 20  # bytes of a report
MOST = 1000        # tests in it
LONGEST = 200      # characters of a text from it in the summary


def read_report(path):
    """Returns the tests of a report as (class, name, kind, text), or None if there is no usable report."""
    if not path.is_file() or path.is_symlink() or path.stat().st_size > LARGEST:
        return None
    try:
        text = path.read_text(encoding="utf-8")  # ignore the encoding that it declares
        if "<!" in text:  # no entities, no document type
            return None
        root = ElementTree.fromstring(text)
    except (UnicodeDecodeError, ElementTree.ParseError):
        return None
    tests = []
    for case in root.iter("testcase"):
        bad = next((child for child in case if child.tag in ("failure", "error")), None)
        tests.append((case.get("classname", ""), case.get("name", ""), "" if bad is None else bad.tag,
                      "" if bad is None else bad.get("message", "")))
    return tests if 0 < len(tests) <= MOST else None


def plain(text):
    """Escapes untrusted text for a Markdown table: it is displayed literally, without markup or links."""
    text = " ".join(text.split())[:LONGEST]
    text = re.sub(r"[^\w .,:;=+'()-]", lambda found: f"&#{ord(found[0])};", text)
    return re.sub(r"(?i)(?<=www)\.|:(?=\S)", lambda found: f"&#{ord(found[0])};", text)


def main(results):
    results = pathlib.Path(results)
    run = json.loads((results / "raw/run.json").read_text(encoding="utf-8"))
    if "error" in run:  # it never ran
        outcome, tests = f"{run['error']['code']}: {run['error']['message']}", None
    else:
        outcome = run["phase"] + (f": {run['reason_code']}" if run.get("reason_code") else "")
        tests = read_report(results / "raw/report.xml")
    bad = [test for test in tests or [] if test[2]]
    passed = run.get("phase") == "completed" and tests is not None and not bad

    suite = ElementTree.Element("testsuite", name="sandbox", tests=str(len(tests or [])), failures=str(len(bad)))
    for classname, name, kind, text in tests or []:
        case = ElementTree.SubElement(suite, "testcase", classname=classname, name=name)
        if kind:
            ElementTree.SubElement(case, kind, message=text)
    if not passed and not bad:  # so that the summary alone does not look like a success
        suite.set("tests", str(len(tests or []) + 1))
        suite.set("errors", "1")
        ElementTree.SubElement(ElementTree.SubElement(suite, "testcase", name="the run"), "error", message=outcome)
    ElementTree.ElementTree(suite).write(results / "junit.xml", encoding="utf-8", xml_declaration=True)

    lines = [
        f"## Tests {'passed' if passed else 'failed'}", "",
        f"- run: {plain(outcome)}",
        f"- tests: {len(tests)}, {len(bad)} failed" if tests is not None else "- tests: no report that can be used",
    ]
    if bad:
        lines += ["", "| test | says |", "|---|---|"]
        lines += [f"| {plain(classname)}.{plain(name)} | {plain(text)} |" for classname, name, _, text in bad]
    text = "\n".join(lines) + "\n"
    (results / "summary.md").write_text(text, encoding="utf-8")
    print(text, end="")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
