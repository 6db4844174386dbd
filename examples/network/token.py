"""Calls an API that needs a token. The token is not in the sandbox: Belljar adds it to the request outside.

    belljar run --secret API_TOKEN --broker API_TOKEN=api.example.com --allow api.example.com token.py https://api.example.com/me
"""

import os
import sys
import urllib.request

print("the token in here:", os.environ["API_TOKEN"])
with urllib.request.urlopen(sys.argv[1], timeout=30) as answer:
    print("the API:", answer.read().decode().strip())
