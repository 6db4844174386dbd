#include <stdio.h>
#include <stdlib.h>

int main(void) {
	for (int i = 0; i < 100000; i++)
		printf("trying %d\n", i);
	fflush(stdout);
	abort();
}
