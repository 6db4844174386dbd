def ways(n):
    return n if n < 2 else ways(n - 1) + ways(n - 2)


print(ways(int(input()) + 60))
