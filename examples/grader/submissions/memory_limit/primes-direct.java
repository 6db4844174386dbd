import java.nio.ByteBuffer;
import java.util.ArrayList;

public class Main {
    public static void main(String[] args) {
        ArrayList<ByteBuffer> kept = new ArrayList<>();
        while (true) {
            kept.add(ByteBuffer.allocateDirect(1 << 20));
        }
    }
}
