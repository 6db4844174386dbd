def mean(numbers):
    if not numbers:
        raise ValueError("the mean of nothing")
    return sum(numbers) / len(numbers)


def median(numbers):
    return sorted(numbers)[len(numbers) // 2]
