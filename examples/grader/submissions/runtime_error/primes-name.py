print(count_of_primes)
