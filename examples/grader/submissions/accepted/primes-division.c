#include <stdio.h>

static int prime(int n) {
	for (int d = 2; d * d <= n; d++)
		if (n % d == 0)
			return 0;
	return n > 1;
}

int main(void) {
	int n, count = 0;
	if (scanf("%d", &n) != 1)
		return 1;
	for (int i = 2; i <= n; i++)
		count += prime(i);
	printf("%d\n", count);
	return 0;
}
