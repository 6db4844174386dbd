import java.util.ArrayList;

class SumList {
    public static void main(String[] args) {
        ArrayList<long[]> kept = new ArrayList<>();
        while (true) {
            kept.add(new long[1 << 17]);
        }
    }
}
