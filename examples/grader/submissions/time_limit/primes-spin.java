class PrimesSpin {
    static volatile int i;

    public static void main(String[] args) {
        while (true) {
            i++;
        }
    }
}
