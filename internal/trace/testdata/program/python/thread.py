import threading


def work():
    raise OSError(2, "gone")


t = threading.Thread(target=work)
t.start()
t.join()
