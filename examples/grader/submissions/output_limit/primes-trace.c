#include <stdio.h>

int main(void) {
	for (int i = 0; i < 100000; i++)
		printf("trying %d\n", i);
	puts("4");
	return 0;
}
