public class Main {
    public static void main(String[] args) {
        System.out.print("4".repeat(1 << 18));
    }
}
