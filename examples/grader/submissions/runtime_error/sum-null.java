class SumNull {
    public static void main(String[] args) {
        String none = null;
        System.out.println(none.length());
    }
}
