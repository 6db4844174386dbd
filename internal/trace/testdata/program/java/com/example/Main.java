package com.example;

import java.io.PrintStream;
import java.util.List;

public class Main {
    static class Closing implements AutoCloseable {
        public void close() {
            throw new IllegalStateException("not closed");
        }
    }

    static void read(String text) {
        try (Closing c = new Closing()) {
            Integer.parseInt(text);
        }
    }

    static void load(String text) {
        try {
            read(text);
        } catch (NumberFormatException e) {
            throw new RuntimeException("cannot load", e);
        }
    }

    static void run(String how) {
        switch (how) {
            case "lambda" -> List.of(1, 2).forEach(n -> System.out.println((new int[1])[n]));
            case "loop" -> {
                RuntimeException a = new RuntimeException("a"), b = new RuntimeException("b\nc", a);
                a.initCause(b);
                throw a;
            }
            case "deep" -> run(how);
            default -> load("x1");
        }
    }

    // Every case but the last runs in a thread of its own, and all print to a file of their own: a JVM is slow to start.
    public static void main(String[] args) throws Exception {
        for (String how : List.of("lambda", "loop", "deep")) {
            System.setErr(new PrintStream("out/" + how + ".txt"));
            Thread t = new Thread(() -> run(how), "worker " + how);
            t.start();
            t.join();
        }
        System.setErr(new PrintStream("out/cause.txt"));
        run("cause");
    }
}
