BigInt("x");
