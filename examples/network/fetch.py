"""Fetches a page with a package that Belljar installs first:

    belljar run --pip requests --allow www.example.com fetch.py http://www.example.com/
"""

import sys

import requests

answer = requests.get(sys.argv[1], timeout=30)
print(answer.status_code, answer.headers.get("Content-Type", ""), len(answer.content), "bytes")
sys.exit(not answer.ok)
