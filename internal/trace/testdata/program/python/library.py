import json


def read(text):
    return json.loads(text)


read("{")
