#include <stdio.h>

int main(void) {
	long x = 0;
	while (scanf("%ld", &x) == 1)
		;
	printf("%ld\n", x);
	return 0;
}
