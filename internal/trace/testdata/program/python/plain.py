import load


def main():
    print(load.ratio(1, 0))


main()
