def ratio(a, b):
    return [x for x in (1, 2)][0] + a / b
