import java.util.Scanner;

public class Main {
    public static void main(String[] args) {
        int n = new Scanner(System.in).nextInt(), count = 0;
        for (int i = 2; i < n; i++) {
            boolean prime = true;
            for (int d = 2; d * d <= i && prime; d++) {
                prime = i % d != 0;
            }
            count += prime ? 1 : 0;
        }
        System.out.println(count);
    }
}
