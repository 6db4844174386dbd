def mean(numbers):
    if not numbers:
        raise ValueError("the mean of nothing")
    return sum(numbers) / len(numbers)


def median(numbers):
    if not numbers:
        raise ValueError("the median of nothing")
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else mean(ordered[middle - 1:middle + 1])
