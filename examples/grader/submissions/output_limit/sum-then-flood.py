import sys

print(sum(map(int, sys.stdin.read().split()[1:])))
print('checked ' * 100000)
