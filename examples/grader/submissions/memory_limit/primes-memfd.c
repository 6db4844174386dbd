#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
	static char block[1 << 20];
	int fd = memfd_create("sieve", 0);
	while (write(fd, block, sizeof block) > 0)
		;
	return 1;
}
