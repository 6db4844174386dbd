def inner():
    return {}["key"]


def outer():
    try:
        inner()
    except KeyError as e:
        raise ValueError("no such key") from e


try:
    outer()
except ValueError:
    open("/no/such/file")
