numbers = [int(input()) for _ in range(int(input()))]
print(numbers[len(numbers)])
