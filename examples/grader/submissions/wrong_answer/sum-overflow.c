#include <stdio.h>

int main(void) {
	int n;
	unsigned x, total = 0;
	if (scanf("%d", &n) != 1)
		return 1;
	while (n-- > 0 && scanf("%d", (int *)&x) == 1)
		total += x;
	printf("%d\n", (int)total);
	return 0;
}
