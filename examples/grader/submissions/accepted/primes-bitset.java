import java.util.BitSet;
import java.util.Scanner;

public class Main {
    public static void main(String[] args) {
        int n = new Scanner(System.in).nextInt(), count = 0;
        BitSet composite = new BitSet(n + 1);
        for (int i = 2; i <= n; i++) {
            if (composite.get(i)) {
                continue;
            }
            count++;
            for (long k = (long) i * i; k <= n; k += i) {
                composite.set((int) k);
            }
        }
        System.out.println(count);
    }
}
