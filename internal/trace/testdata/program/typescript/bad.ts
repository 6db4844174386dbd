const x: number = "s";
foo();
