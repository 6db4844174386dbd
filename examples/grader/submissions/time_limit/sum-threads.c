#include <pthread.h>

static void *spin(void *unused) {
	for (volatile int i = 0;; i++)
		;
	return unused;
}

int main(void) {
	pthread_t t;
	for (int i = 0; i < 8; i++)
		pthread_create(&t, 0, spin, 0);
	pthread_join(t, 0);
	return 0;
}
