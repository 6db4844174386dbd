static int down(volatile int n) {
	volatile char room[4096] = {0};
	return room[0] + down(n + 1) + n;
}

int main(void) {
	return down(0);
}
