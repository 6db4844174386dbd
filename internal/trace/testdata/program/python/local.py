def f():
    class Oops(Exception):
        pass

    raise Oops("local")


f()
