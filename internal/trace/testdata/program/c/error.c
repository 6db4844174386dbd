#include <stdio.h>

int half(int n) {
    return n / missing;
}

int main(void) {
    int x = "text";
    return half(x)
}
