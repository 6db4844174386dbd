#include <stdio.h>
#include <stdlib.h>

int main(void) {
	int n, count = 0;
	if (scanf("%d", &n) != 1)
		return 1;
	char *composite = calloc(n + 1, 1);
	for (int i = 2; i <= n; i++) {
		if (composite[i])
			continue;
		count++;
		for (long k = (long)i * i; k <= n; k += i)
			composite[k] = 1;
	}
	printf("%d\n", count);
	return 0;
}
