class Single {
    public static void main(String[] args) {
        Object o = null;
        o.hashCode();
    }
}
