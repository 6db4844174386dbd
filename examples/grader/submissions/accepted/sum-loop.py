total = 0
for _ in range(int(input())):
    total += int(input())
print(total)
