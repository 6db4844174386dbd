#include "primes.h"

int main(void) {
	return 0;
}
