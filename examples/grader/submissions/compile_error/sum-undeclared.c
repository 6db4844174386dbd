int main(void) {
	return total;
}
