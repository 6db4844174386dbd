public class Main {
    public static void main(String[] args) {
        System.out.println(4);
        System.exit(2);
    }
}
