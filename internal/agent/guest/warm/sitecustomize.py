"""Makes a Python interpreter wait for its program. The interpreter imports this file while it starts, in place of the image's own
sitecustomize, which this file then imports itself. Afterwards the interpreter behaves as if it had never waited.

Socket 97 carries one message per step. From the agent: how to wait (once or fork) and the modules to import; then the command: 1 if it
has a standard input, the directory, and the resource limits; then "go". To the agent: the number of threads; then "ready". An interpreter
that forks gets a message for each process to fork.
"""
import os
import sys

SOCKET = 97


def own():
    """Removes the traces of this file, and imports the image's sitecustomize."""
    here = os.path.dirname(__file__)
    rest = os.environ["PYTHONPATH"][len(here) + 1:]
    if rest:
        os.environ["PYTHONPATH"] = rest
    else:
        del os.environ["PYTHONPATH"]
    sys.path.remove(here)
    sys.path_importer_cache.pop(here, None)
    del sys.modules["sitecustomize"]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as e:
        if e.name != "sitecustomize":
            raise
        return e


def threads():
    return len(os.listdir("/proc/self/task"))


def sight():
    """Returns the state of the search path, as an interpreter that starts now would find it."""
    found = []
    for path in [*sys.path, sys.modules["site"].USER_SITE or "/"]:
        try:
            s = os.stat(path)
            found.append((path, s.st_ino, s.st_mtime_ns))
        except OSError:
            found.append((path, 0, 0))
    return found


def hidden(names):
    """Reports whether the program would import a file of its own folder instead of one of these modules."""
    with open("/proc/self/cmdline", "rb") as line:
        program = os.fsdecode(line.read().split(b"\0")[1])
    folder = program if os.path.isdir(program) else os.path.dirname(os.path.realpath(program))
    for hook in sys.path_hooks:
        try:
            finder = hook(folder)
        except ImportError:
            continue
        found = map(finder.find_spec, names)
        return any(spec and spec.loader for spec in found)  # a folder without code has no loader
    return False


def freeze(gc):
    """Excludes existing objects from the collections at the end of the process, unless the program imports gc, which would show that."""
    import _imp

    create = _imp.create_builtin

    def create_builtin(spec):
        if spec.name == "gc":
            _imp.create_builtin = create
            gc.unfreeze()
        return create(spec)

    _imp.create_builtin = create_builtin
    # Except the program's own variables: these may hold objects to finalize.
    main = sys.modules["__main__"].__dict__
    names = dict(main)
    main.clear()
    gc.collect()  # it untracks an empty dictionary until something is put into it
    gc.freeze()
    main.update(names)


def spare():
    """Keeps the interpreter from clearing preloaded modules when it ends, which takes longer than most programs run. Returns a function
    that registers these modules. If a program has added a name to a module, that module is cleared.

    Only functions in C run at the end: a program that traces or profiles calls would see one of ours."""
    import atexit
    from _collections import deque
    from _operator import and_, eq, is_
    from itertools import compress

    names, modules, spaces, sizes = [], [], [], []
    ring = [modules]
    ring.append(ring)  # a ring that is frozen lives as long as the process
    same = map(and_, map(is_, map(sys.modules.get, names), modules), map(eq, map(len, spaces), sizes))
    atexit.register(deque(maxlen=0).extend, map(sys.modules.pop, compress(names, same)))  # registered first, so called last

    def keep(given):
        for n in given:
            m = sys.modules[n]
            if isinstance(m, type(sys)):
                names.append(n)
                modules.append(m)
                spaces.append(m.__dict__)
                sizes.append(len(m.__dict__))

    return keep


def enlarge():
    """Moves the heap into large pages: a process with fewer pages ends sooner. This needs ctypes, and uses it only if it was preloaded."""
    try:
        ctypes, size = sys.modules["ctypes"], 2 << 20
        madvise = ctypes.CDLL(None).madvise
        with open("/proc/self/maps") as maps:
            for line in maps:
                area, mode, _, device, _ = line.split(maxsplit=5)[:5]
                begin, end = (int(at, 16) for at in area.split("-"))
                begin, end = -(-begin // size) * size, end // size * size
                if mode == "rw-p" and device == "00:00" and begin < end:
                    madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), 25)  # MADV_COLLAPSE
    except Exception:  # ctypes is missing, or the user's own module has its name
        pass


def receive(sock):
    text, extra, _, _ = sock.recvmsg(64 << 10, 256)
    fds = [fd for _, _, data in extra for fd in memoryview(data).cast("i").tolist()]
    if not text:
        os._exit(0)
    return text.split(b"\0"), fds


def become(sock, words, fds, resource, preloaded):
    """Makes this process that of a command. The program does not start before the agent sends "go"."""
    stdin, cwd, *limits = words
    for fd in fds:
        os.dup2(fd, 0)
        os.close(fd)
    os.chdir(cwd)
    if preloaded and hidden(preloaded):
        os._exit(1)
    for limit in limits:
        name, value = limit.split(b"=")
        resource.setrlimit(getattr(resource, "RLIMIT_" + name.decode().upper()), (int(value),) * 2)
    if stdin == b"1":
        import io

        old, raw = sys.stdin, io.FileIO(0, "r", closefd=False)
        raw.name = "<stdin>"
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(raw), encoding=old.encoding, errors=old.errors, newline="\n")
        sys.stdin.mode = "r"
    for name in ("random", "numpy.random"):
        if name in sys.modules:
            sys.modules[name].seed()
    sock.send(b"ready")
    if not sock.recv(8):
        os._exit(1)
    sock.close()


def fork(sock, socket):
    """Forks a process for each message, which carries a socket and two outputs for it, and returns in that process, with its socket.
    The parent of each exits, so that the agent's keeper adopts the process and gets its status."""
    while True:
        _, fds = receive(sock)
        if threads() != 1:
            os._exit(0)
        child = os.fork()
        if child == 0:
            middle = os.getpid()
            if os.fork():
                os._exit(0)
            os.setsid()
            sock.close()
            for to in (1, 2):
                os.dup2(fds[to], to)
                os.close(fds[to])
            while os.getppid() == middle:
                os.sched_yield()
            os.set_inheritable(fds[0], False)
            return socket(fileno=fds[0])
        for fd in fds:
            os.close(fd)
        os.waitpid(child, 0)


def wait():
    """Returns in the process of a command."""
    known = set(sys.modules)
    import gc
    import resource
    from _socket import socket

    keep = spare()
    for name in set(sys.modules) - known:
        del sys.modules[name]
    sock = socket(fileno=SOCKET)
    os.set_inheritable(SOCKET, False)
    (how, *names), _ = receive(sock)
    for name in names:
        try:
            __import__(name.decode())
        except Exception:  # the image lacks the module
            pass
    preloaded = [name for name in set(sys.modules) - known if "." not in name and name not in sys.builtin_module_names]
    if preloaded and hidden(preloaded):
        os._exit(0)
    keep(set(sys.modules) - known)
    enlarge()
    freeze(gc)
    seen = sight()
    sock.send(b"%d" % threads())
    if how == b"fork":
        sock = fork(sock, socket)
        sock.send(b"1")
    words, fds = receive(sock)
    if sight() != seen:
        os._exit(0)
    become(sock, words, fds, resource, preloaded)


def park():
    try:
        absent = own()
        wait()
    except BaseException:  # e.g. no process is left. Otherwise the interpreter would execute the program without a command
        os._exit(1)
    if absent:
        raise absent


park()
