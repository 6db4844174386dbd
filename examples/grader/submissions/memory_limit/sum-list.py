kept = []
while True:
    kept.append(bytes(1 << 20))
