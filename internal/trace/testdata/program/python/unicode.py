def f(größe):
    größe = "😀" + größe.höhe; return größe
f("x")
