#include <stdio.h>
#warning "a warning is no error"

main() {
	long n, x, unused, total = 0;
	scanf("%ld", &n);
	for (; n; n--) {
		scanf("%ld", &x);
		total += x;
	}
	printf("%ld", total);
	return 0;
}
