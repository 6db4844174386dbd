new (class A { constructor() { throw new Error("constructed"); } })();
