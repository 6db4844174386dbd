#include <stdio.h>
#include <stdlib.h>

int main(void) {
	long n = 1L << 30;
	char *sieve = malloc(n);
	for (long i = 0; i < n; i += 64)
		sieve[i] = 1;
	printf("%d\n", sieve[1]);
	return 0;
}
