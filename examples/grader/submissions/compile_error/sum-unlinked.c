int add(int, int);

int main(void) {
	return add(1, 2);
}
