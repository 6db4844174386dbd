while True:
    print(0)
