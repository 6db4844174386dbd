#include <string>

template <typename T> T twice(T t) { return t.twice(); }

int main() {
    int unused;
    std::string s = "é" + 1.5;
    return twice(3);
}
