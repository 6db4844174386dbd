"""The Python kernel: it executes cells one after the other in one module, which keeps its variables.

Requests are lines of JSON on the socket 98, and the code of each is in the file 99. Reports are lines of an id, and either "open" (the
cell's streams are open), an exit status, or "= " and a result in JSON. It works with Python 3.8 and later, and needs no packages.

The program consists of show.py, ipython.py for the kernel of that name, and this file.
"""
import __future__
import ast
import builtins
import errno
import importlib.util
import inspect
import io
import json
import linecache
import os
import re
import signal
import socket
import sys
import threading
import traceback
import types

SOCKET, TEXT = 98, 99
QUOTES = ("'", '"', "'''", '"""')
QUOTED = r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\""""  # in a shell
MOST_FRAMES = 50
PID = os.getpid()


class Kernel:
    def __init__(self):
        os.set_inheritable(SOCKET, False)
        os.set_inheritable(TEXT, False)
        self.sock = socket.socket(fileno=SOCKET)
        self.sock.setblocking(True)
        self.lock = threading.RLock()
        self.id = None  # the cell's id
        self.cell = 0
        self.fault = self.shell = None  # for IPython
        self.holding = False  # an interrupt waits until a report is sent
        self.pending = False
        self.interrupted = False  # the cell was: what it does then is not interrupted by a repetition
        self.last = self.loop = None
        self.future = 0  # compiler flags that a cell has set for later cells
        self.has_stdin = False
        self.shown = set()  # figures, by id
        self.module = types.ModuleType("__main__")
        self.module.__dict__.update(__builtins__=builtins, display=self.display)
        sys.modules["__main__"] = self.module
        self.ns = self.module.__dict__
        sys.argv = [""]
        builtins.display = self.display
        builtins.input = self.input
        os.environ.setdefault("MPLBACKEND", "Agg")
        self.hooks = Hooks(self)
        sys.meta_path.insert(0, self.hooks)
        sys.meta_path.append(Shims(self))
        for name in ("stdout", "stderr"):
            self.open_output(name)
        if "ipython" in globals():
            try:
                self.shell = ipython(self)
            except ImportError as e:
                self.fault = "the image has no IPython: %s" % e

    # Reports.

    def send(self, text):
        """Sends a line. An interrupt waits until the line is complete."""
        with self.lock:
            if self.id is None or os.getpid() != PID:
                return
            self.holding = True
            try:
                self.sock.sendall((self.id + " " + text + "\n").encode("utf-8", "replace"))
            except OSError:
                os.write(2, b"the interpreter ends: the code has closed its connection\n")
                os._exit(1)
            finally:
                self.holding = False
        if self.pending and threading.current_thread() is threading.main_thread():
            self.pending = False
            self.interrupt(None, sys._getframe())

    def result(self, kind, **fields):
        self.flush()
        self.send("= " + json.dumps(dict(type=kind, **fields), ensure_ascii=False, default=str))

    def user(self, call, *args):
        """Calls a function that may run the user's code. An interrupt raises only inside such a call, so it cannot end this program. If one
        came since the last call, it raises now."""
        if self.pending:
            self.pending = False
            self.raises()
        return call(*args)

    def interrupt(self, _, frame):
        if self.holding:
            self.pending = True
            return
        while frame is not None and frame.f_code is not Kernel.user.__code__:
            frame = frame.f_back
        if frame is not None:
            self.raises()
        else:
            self.pending = True

    def raises(self):
        if not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt

    # Streams.

    def open_output(self, name):
        fd = 1 if name == "stdout" else 2
        raw = io.FileIO(fd, "w", closefd=False)
        stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)

    def open_streams(self, paths):
        for fd, (path, flags) in enumerate(zip(paths, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
            place(path, flags, fd)
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r", closefd=False)), encoding="utf-8", errors="replace")
        self.has_stdin = paths[0] != os.devnull
        for name in ("stdout", "stderr"):
            if getattr(getattr(sys, name, None), "closed", True):
                self.open_output(name)

    def close_streams(self):
        for fd in range(3):
            place(os.devnull, os.O_RDWR, fd)

    def flush(self):
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                stream.flush()
            except KeyboardInterrupt:
                raise
            except BaseException:
                pass

    def input(self, prompt="", *, password=False):
        """Asks the client of an interactive run for a line."""
        text = str(prompt)
        sys.stdout.write(text)
        self.flush()
        if not self.has_stdin:
            raise EOFError("the code asks for input, and there is none: write the answer into the code, send stdin, or answer in belljar repl")
        self.result("input", prompt=text[:1000], password=password)
        line = sys.stdin.readline()
        if not line:
            raise EOFError("the standard input of this run has ended")
        return line.rstrip("\n")

    # Representations.

    def display(self, *objects, **options):
        """Shows objects, or with raw=True bundles of MIME types."""
        for o in objects:
            data = dict(o) if options.get("raw") and isinstance(o, dict) else bundle(o, self.shown)
            self.result("display", data=bounded(data))

    def show_figures(self):
        """Shows the open figures of matplotlib, and closes them."""
        plt = sys.modules.get("matplotlib.pyplot")
        numbers = getattr(plt, "get_fignums", list)()
        try:
            for n in numbers:
                figure = plt.figure(n)
                if id(figure) not in self.shown:
                    self.result("display", data=bounded(figure_bundle(figure)))
        finally:  # otherwise a figure that cannot be drawn would fail every later cell
            if numbers:
                plt.close("all")

    # Cells.

    def serve(self):
        signal.signal(signal.SIGINT, self.interrupt)
        data = b""
        while True:
            while b"\n" not in data:
                try:
                    self.sock.recv(1, socket.MSG_PEEK)
                except BaseException as e:
                    if getattr(e, "errno", None):
                        raise
                    continue  # raised by a signal handler of a cell
                more = self.sock.recv(65536)
                if not more:
                    os._exit(0)
                data += more
            line, data = data.split(b"\n", 1)
            try:
                self.handle(json.loads(line.decode()))
            except BaseException:
                os.write(2, b"the interpreter ends: the code has broken what it needs\n")
                os._exit(1)

    def handle(self, req):
        status = 1
        # If a cell has broken what this needs, the interpreter ends before it reports the start of the next cell. A new one then executes it.
        code = os.pread(TEXT, os.fstat(TEXT).st_size, 0).decode("utf-8-sig", "replace")
        code = code.replace("\r\n", "\n").replace("\r", "\n")  # as Python reads files
        self.open_streams((req["stdin"], req["stdout"], req["stderr"]))
        try:
            self.id, self.pending, self.interrupted = req["id"], False, False
            self.shown = set()
            self.send("open")
            if self.fault:
                self.fail(ModuleNotFoundError(self.fault))
                status = int(req["op"] == "run")
            elif req["op"] == "complete":
                status = self.complete(code)
            else:
                status = self.run(code)
            self.user(self.flush)
        except BaseException as e:  # an interrupt at the end of the cell, or an error of this program
            if not isinstance(e, KeyboardInterrupt):
                self.fail(e)
        self.pending = False
        if os.getpid() != PID:  # a fork that returned from the cell
            os._exit(status)
        signal.signal(signal.SIGINT, self.interrupt)
        self.close_streams()
        self.send(str(status & 255))
        with self.lock:
            self.id = None

    def run(self, code):
        self.cell += 1
        try:
            self.user(self.execute, code, "<cell %d>" % self.cell)
            return 0
        except SystemExit as e:
            if e.code is None or isinstance(e.code, int):
                return e.code or 0
            sys.stderr.write("%s\n" % (e.code,))
            return 1
        except BaseException as e:
            return self.fail(e)

    def execute(self, code, name):
        """Executes a cell, and shows its value and figures."""
        if self.shell:
            done = self.shell.run_cell(code, store_history=True)
            self.show_figures()
            if done.error_before_exec or done.error_in_exec:
                raise done.error_before_exec or done.error_in_exec
            return
        try:
            value = self.value(code, name)
            data = None if value is None else bounded(bundle(value, self.shown))
        finally:  # otherwise the figures of a failed cell would appear in the next one
            self.show_figures()  # except the value
        if data is not None:
            if self.ns.get("_", self.last) is self.last:  # otherwise the program has its own
                self.ns["_"] = self.last = value
            self.result("value", data=data, count=self.cell)

    def value(self, code, name):
        """Executes a cell, and returns the value of its last expression; None with a semicolon after it."""
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self.future
        cache(name, code)
        self.ns.pop("__warningregistry__", None)  # the warnings of earlier cells, by line
        tree = None
        try:
            tree = compile(code, name, "exec", flags, True)
        except SyntaxError:
            plain = magics(code)
            if plain == code:
                raise
        if tree is None:  # outside the except clause: otherwise an error here would have the first error as its context
            self.ns.setdefault("__belljar__", self)
            code = plain
            tree = compile(code, name, "exec", flags, True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            expr = tree.body.pop()
            if not semicolon(code, expr):
                last = ast.Expression(expr.value)
            else:
                tree.body.append(expr)
        parts = []
        if tree.body:
            parts.append(compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self.future, True))
            self.future |= parts[0].co_flags & __future__.annotations.compiler_flag
        if last is not None:
            parts.append(compile(last, name, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self.future, True))
        if any(part.co_flags & inspect.CO_COROUTINE for part in parts):
            return self.wait(self.awaited(parts))
        value = None
        for part in parts:
            value = eval(part, self.ns)
        return value

    async def awaited(self, parts):
        """Executes a cell that awaits. The loop runs from the cell's beginning, so it may make tasks before its first await."""
        value = None
        for part in parts:
            value = eval(part, self.ns)
            if part.co_flags & inspect.CO_COROUTINE:
                value = await value
        return value

    def wait(self, coroutine):
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except KeyboardInterrupt:
            if task.cancel():  # otherwise the interrupt has ended the task, and the loop would not stop again
                try:
                    self.loop.run_until_complete(task)
                except (asyncio.CancelledError, Exception):
                    pass
            raise

    def fail(self, e):
        """Reports an error: as a result, and as text on stderr. It returns the exit status."""
        tb = e.__traceback__
        while tb is not None and not tb.tb_frame.f_code.co_filename.startswith("<cell "):
            tb = tb.tb_next
        tb = without_kernel(tb)
        e = e.with_traceback(tb)
        cause = e
        for _ in range(100):  # causes may form a cycle
            cause = cause.__cause__ or cause.__context__
            if cause is None:
                break
            cause.__traceback__ = without_kernel(cause.__traceback__)
        frames = [
            {"file": f.filename, "line": f.lineno, "function": f.name, "source": (f.line or "")[:500]}
            for f in traceback.StackSummary.extract(traceback.walk_tb(tb))[-MOST_FRAMES:]
        ]
        if isinstance(e, SyntaxError) and isinstance(e.filename, str) and isinstance(e.lineno, int):  # its code has no frame
            source = e.text if isinstance(e.text, str) else ""
            frames.append({"file": e.filename[:500], "line": e.lineno, "function": "", "source": source.strip()[:500]})
        name, value, text = type(e).__name__, "<no text>", ""
        try:
            value = self.user(str, e)
        except KeyboardInterrupt:
            text = "%s: %s\n" % (name, value)  # formatting it again would take as long
        except BaseException:
            pass
        try:
            text = text or "".join(self.user(traceback.format_exception, type(e), e, tb))
        except BaseException:
            text = "%s: %s\n" % (name, value)
        self.result("error", name=name, value=cut(value), frames=frames, traceback=cut(text))
        try:
            sys.stderr.write(text)
        except (AttributeError, OSError, ValueError):
            pass
        return 130 if isinstance(e, KeyboardInterrupt) else 1

    def complete(self, code):
        import rlcompleter

        found = re.search(r"[\w.]*$", code)
        word, matches = found.group(), []
        try:
            line = code[code.rfind("\n") + 1 :].lstrip()
            if re.match(r"(import|from)\s+[\w.]*$", line):
                matches = modules(word)
            elif word:
                finder = rlcompleter.Completer(self.ns)
                while len(matches) < 200:
                    m = self.user(finder.complete, word, len(matches))
                    if m is None:
                        break
                    matches.append(m)
        except (Exception, KeyboardInterrupt):
            pass
        matches = sorted({re.split("[(: ]", m, maxsplit=1)[0] for m in matches})  # without what rlcompleter adds, as in "d.copy()" and "try:"
        self.result("completions", word=word, matches=matches)
        return 0

    # Implementations of magics.

    def system(self, command, keep=False):
        command = fill(command, sys._getframe(1))
        pip = re.match(r"\s*(?:python3? -m )?pip3?\s+(.*)", command, re.S)
        return self.pip(pip.group(1), keep) if pip else self.bash(command, keep)

    def script(self, text):
        """Executes a script. If it fails, so does the cell."""
        self.bash(text)
        if self.ns["_exit_code"]:
            raise RuntimeError("%%%%bash ended with exit code %d" % self.ns["_exit_code"])

    def bash(self, command, keep=False):
        return self.start(["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh", "-c", command], keep)

    def start(self, command, keep, env=None):
        import subprocess

        self.flush()
        p = subprocess.Popen(command, stdout=subprocess.PIPE if keep else None, env=env)
        try:
            out = p.communicate()[0]
        except KeyboardInterrupt:
            try:
                p.wait(2)
            except subprocess.TimeoutExpired:
                p.kill()
            raise
        self.ns["_exit_code"] = p.returncode
        return out.decode("utf-8", "replace").splitlines() if keep else None

    def pip(self, args, keep=False):
        import importlib
        import shlex
        import site

        args = uncommented(args)
        words = shlex.split(args)
        env = dict(os.environ)
        proxy = env.get("BELLJAR_PROXY")
        local = "--no-index" in words or words[:1] in (["list"], ["show"], ["freeze"], ["--version"], ["check"], ["uninstall"])
        if not proxy and not local and not any(k.endswith("INDEX_URL") for k in env):
            raise PermissionError(
                "pip has no way to an index: this session's network is denied. "
                "Make the session with packages, or with network_policy allowlist and egress preset pip"
            )
        if proxy:
            env.setdefault("HTTPS_PROXY", proxy)
            env.setdefault("HTTP_PROXY", proxy)
        if words[:1] == ["install"]:
            env.update(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1")
        command = [sys.executable, "-m", "pip"]
        shell = any(re.match(r"\d*[<>]|[|&;]", word) or word.endswith(";") for word in words)  # pip has no such arguments
        expands = any(re.search(r"[$`*?]|^~", word) for word in words)
        if expands and not shell:  # the others of a shell's characters belong to words like numpy>=2
            args = re.sub(QUOTED + "|[<>|&;]", lambda m: m.group() if len(m.group()) > 1 else "\\" + m.group(), args)
        command = ["/bin/sh", "-c", shlex.join(command) + " " + args] if shell or expands else command + words
        out = self.start(command, keep, env)
        user = site.getusersitepackages()
        if os.path.isdir(user) and user not in sys.path:
            site.addsitedir(user)
        importlib.invalidate_caches()
        if self.ns["_exit_code"] and not shell:
            raise RuntimeError("pip ended with exit code %d" % self.ns["_exit_code"])
        return out

    def magic(self, name, args):
        args = fill(args, sys._getframe(1))
        if name == "pip":
            return self.pip(args)
        if name == "cd":
            os.chdir(os.path.expanduser(args.strip() or "~"))
            return None
        if name in ("matplotlib", "config"):
            return None  # figures need none
        raise NameError("magic %%%s is not known: there are %%pip, %%cd, %%%%bash and !command, and more in the language ipython" % name)


def fill(text, frame):
    """Replaces expressions in braces with their values in a frame."""

    def value(m):
        try:
            return str(eval(m.group(1), frame.f_globals, frame.f_locals))
        except Exception:
            return m.group()

    return re.sub(r"\{([^{}\n]+)\}", value, text)


def uncommented(args):
    """Returns a shell's words without a comment, which begins at a word's start: it may have a quote, and the # of a URL begins none."""
    words = re.findall(r"(?:%s|\S)+" % QUOTED, args, re.S)
    return " ".join(words[: next((n for n, word in enumerate(words) if word.startswith("#")), None)])


def place(path, flags, fd):
    """Opens a file as descriptor fd. If a cell has closed fd, open returns that number."""
    try:
        opened = os.open(path, flags | os.O_CLOEXEC)
    except OSError as e:
        if e.errno != errno.EMFILE:
            raise
        os.close(fd)  # no other descriptor is free
        opened = os.open(path, flags | os.O_CLOEXEC)
    if opened != fd:
        os.dup2(opened, fd)
        os.close(opened)
    os.set_inheritable(fd, True)


def without_kernel(tb):
    """Returns a traceback without the frames of this program."""
    kept, places = None, []
    while tb is not None:
        places.append(tb)
        tb = tb.tb_next
    for at in reversed(places):
        if at.tb_frame.f_globals is not globals():
            kept = types.TracebackType(kept, at.tb_frame, at.tb_lasti, at.tb_lineno)
    return kept


def cache(name, code):
    """Keeps a cell's source for tracebacks."""
    linecache.cache[name] = (len(code), None, [line + "\n" for line in code.split("\n")], name)
    number = int(name[6:-1])
    linecache.cache.pop("<cell %d>" % (number - 500), None)


def semicolon(code, node):
    """Reports whether a semicolon follows a statement."""
    after = code.encode("utf-8", "replace").split(b"\n")[node.end_lineno - 1][node.end_col_offset :]
    return after.lstrip().startswith(b";")


def magics(code):
    """Turns the lines of a cell that begin with ! or % into calls."""
    first, _, rest = code.lstrip().partition("\n")
    if re.match(r"%%(bash|sh)\s*$", first):
        return "__belljar__.script(%r)" % rest
    magic = re.compile(r"(\s*)(?:([A-Za-z_]\w*)\s*=\s*)?(!|%)\s*(.*)$")
    lines, opened, rest = [], [], code.split("\n")[::-1]
    while rest:
        line, joined = rest.pop(), []
        m = None if opened else magic.match(line)
        while m and line.endswith("\\") and rest:
            line = line[:-1] + rest.pop()
            m = magic.match(line)
            joined.append("")
        if m and m.group(3) == "!":
            keep = m.group(2)
            line = "%s%s__belljar__.system(%r%s)" % (m.group(1), keep + " = " if keep else "", m.group(4), ", True" if keep else "")
        elif m and not m.group(2):
            name, _, args = m.group(4).partition(" ")
            line = "%s__belljar__.magic(%r, %r)" % (m.group(1), name, args)
        lines += [line] + joined
        opened = unclosed(line, opened)
    return "\n".join(lines)


def unclosed(line, opened):
    """Returns the open brackets and string after a line, and a backslash at its end. opened is the state before the line."""
    opened = [o for o in opened if o != "\\"]
    at, end = 0, len(line)
    while at < end:
        quotes = opened[-1] if opened and opened[-1] in QUOTES else None
        if quotes:
            m = re.compile(r"(?:\\.|(?!%s)[^\\])*%s" % (quotes, quotes)).match(line, at)
        else:
            m = re.compile(r"\"\"\"|\'\'\'|[\"\'#()\[\]{}]|\\$").search(line, at)
        if m is None or m.group() == "#":
            break
        at = m.end()
        if quotes or m.group() in (")", "]", "}"):
            del opened[-1:]
        else:
            opened.append(m.group())
    if opened and opened[-1] in ('"', "'") and not line.endswith("\\"):
        opened.pop()  # a syntax error
    return opened


def modules(word):
    import pkgutil

    parent, _, _ = word.rpartition(".")
    if parent:
        spec = importlib.util.find_spec(parent)
        names = [parent + "." + m.name for m in pkgutil.iter_modules(spec.submodule_search_locations or [])] if spec else []
    else:
        names = [m.name for m in pkgutil.iter_modules()] + list(sys.builtin_module_names)
    return [n for n in names if n.startswith(word)][:200]


KERNEL = Kernel()
if HERE:
    sys.path.insert(0, "")
KERNEL.serve()
