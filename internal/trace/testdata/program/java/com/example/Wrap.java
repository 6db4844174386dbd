package com.example;

public class Wrap {
    static void fail() {
        throw new IllegalStateException("outer", new RuntimeException("inner"));
    }

    public static void main(String[] args) {
        fail();
    }
}
