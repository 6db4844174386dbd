/* Counts the primes below a limit (2,000,000 by default) with a sieve. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
	long limit = argc > 1 ? strtol(argv[1], NULL, 10) : 2000000;
	if (limit < 2 || limit > 100000000) {
		fprintf(stderr, "the limit must be between 2 and 100000000\n");
		return 2;
	}
	char *composite = calloc(limit, 1);
	if (!composite) {
		perror("calloc");
		return 1;
	}
	long count = 0, last = 0;
	for (long n = 2; n < limit; n++) {
		if (composite[n])
			continue;
		count++;
		last = n;
		for (long m = n * n; m < limit; m += n)
			composite[m] = 1;
	}
	free(composite);
	printf("%ld primes below %ld, the last is %ld\n", count, limit, last);
	return 0;
}
