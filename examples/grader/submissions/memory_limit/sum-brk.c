#define _DEFAULT_SOURCE
#include <string.h>
#include <unistd.h>

int main(void) {
	for (;;)
		memset(sbrk(1 << 16), 1, 1 << 16);
}
