"""Asks three questions on standard output and reads the answers from standard input."""

import sys

QUESTIONS = [("7 * 8", "56"), ("the capital of Portugal", "lisbon"), ("2 ** 10", "1024")]

right = 0
for question, answer in QUESTIONS:
    print(f"{question}? ", end="", flush=True)
    line = sys.stdin.readline()
    if not line:
        print("\nno input")
        sys.exit(2)
    good = line.strip().lower() == answer
    right += good
    print("right" if good else f"no, {answer}")
print(f"{right} of {len(QUESTIONS)} right")
