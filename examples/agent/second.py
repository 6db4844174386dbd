numbers = []
for line in open("data.txt"):
    try:
        numbers.append(float(line))
    except ValueError:
        pass  # no number
print(sum(numbers) / len(numbers))
