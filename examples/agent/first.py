numbers = [float(line) for line in open("data.txt")]
print(sum(numbers) / len(numbers))
