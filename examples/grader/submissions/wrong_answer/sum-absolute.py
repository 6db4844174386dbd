print(sum(abs(int(input())) for _ in range(int(input()))))
