import java.util.Scanner;

class SumDouble {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        double total = 0;
        for (int n = in.nextInt(); n > 0; n--) {
            total += in.nextLong();
        }
        System.out.println(total);
    }
}
