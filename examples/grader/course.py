#!/usr/bin/env python3
"""Makes a class of 200 students from the submissions here: course.py FOLDER [STUDENTS]

Each student hands in one of the programs with an individual comment, so no two are the same. expected.csv
has the verdict that each must get.
"""

import csv
import sys
from pathlib import Path

STEP = 57  # twelve students in a row cover all verdicts
COMMENT = {".py": "# student {}\n", ".c": "/* student {} */\n", ".java": "// student {}\n"}


def main() -> None:
    folder, students = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200
    sources = sorted(p for p in (Path(__file__).parent / "submissions").glob("*/*") if p.suffix in COMMENT)
    folder.mkdir(parents=True)
    with open(folder / "expected.csv", "w", newline="") as expected:
        table = csv.writer(expected)
        table.writerow(["program", "verdict"])
        for student in range(students):
            source = sources[student * STEP % len(sources)]
            problem = source.name.split("-")[0]
            program = folder / f"{problem}-{student:03}{source.suffix}"
            program.write_text(source.read_text() + COMMENT[source.suffix].format(student))
            table.writerow([program.name, source.parent.name])


if __name__ == "__main__":
    main()
