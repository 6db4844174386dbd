for _ in range(int(input())):
    int(input())
