n = int(input('How many? '))
print(sum(int(input()) for _ in range(n)))
