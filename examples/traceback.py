"""Fails like a typical program: three calls deep, with a traceback and status 1."""


def total(prices):
    return sum(price(p) for p in prices)


def price(text):
    return float(text.removesuffix(" EUR"))


print("adding up", flush=True)
print(total(["4.50 EUR", "12 EUR", "free"]))
