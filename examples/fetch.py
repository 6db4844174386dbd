"""Fetches a page with a package that is installed first:

    belljar run --pip requests --allow api.example.com examples/fetch.py https://api.example.com/
"""

import sys

import requests

answer = requests.get(sys.argv[1], timeout=30)
print(answer.status_code, answer.headers.get("Content-Type", ""), len(answer.content), "bytes")
sys.exit(not answer.ok)
