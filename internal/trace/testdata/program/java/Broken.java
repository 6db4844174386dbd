class Broken {
    int f() {
        String s = 1;
        return missing;
    }
}
