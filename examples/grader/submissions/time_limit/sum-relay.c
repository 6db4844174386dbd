#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Each process uses little time of its own. */
int main(void) {
	for (;;) {
		if (fork() == 0) {
			while (clock() < CLOCKS_PER_SEC / 100)
				;
			_exit(0);
		}
		wait(0);
	}
}
