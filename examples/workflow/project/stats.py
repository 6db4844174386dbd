def mean(numbers):
    return sum(numbers) / len(numbers)


def median(numbers):
    return numbers[len(numbers) // 2]
