//go:build linux && !race

package pool_test

import (
	"fmt"
	"strings"
)

// warmProgram is a small Python program.
type warmProgram struct {
	text, stdin string
	until       string // its output before it is ended; "" if it ends without help
}

// warmPrograms returns programs whose results could show how their interpreter was started.
func warmPrograms() (list []warmProgram) {
	add := func(texts ...string) {
		for _, text := range texts {
			list = append(list, warmProgram{text: text})
		}
	}
	// Facts of the interpreter's start.
	for _, what := range []string{
		"sys.argv", "sys.orig_argv", "sys.path", "sys.flags", "sys.executable", "sys.prefix", "sys.exec_prefix", "sys.base_prefix", "sys.warnoptions", "sys._xoptions",
		"sys.version", "sys.byteorder", "sys.getdefaultencoding()", "sys.getfilesystemencoding()", "sys.getfilesystemencodeerrors()", "sys.dont_write_bytecode",
		"sys.pycache_prefix", "sys.getrecursionlimit()", "sys.getswitchinterval()", "sys.platlibdir", "sorted(sys.modules)", "sys.meta_path", "sys.path_hooks",
		"sorted(sys.path_importer_cache)", "sys.excepthook is sys.__excepthook__", "sys.displayhook is sys.__displayhook__", "sys.gettrace()", "sys.getprofile()",
		"hasattr(sys, 'ps1')", "hasattr(sys, 'last_value')", "sys.thread_info", "sys.hash_info", "sys.int_info", "sys.float_info", "sys.implementation",
		"sys.stdin.name, sys.stdin.mode, sys.stdin.encoding, sys.stdin.errors, sys.stdin.line_buffering, sys.stdin.isatty(), sys.stdin.fileno()",
		"sys.stdout.name, sys.stdout.mode, sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering, sys.stdout.write_through, sys.stdout.isatty()",
		"sys.stderr.name, sys.stderr.mode, sys.stderr.encoding, sys.stderr.errors, sys.stderr.line_buffering, sys.stderr.isatty()",
		"sys.stdin.seekable(), sys.stdout.seekable(), sys.stderr.seekable()", "sys.stdin.buffer, sys.stdout.buffer, sys.stderr.buffer",
		"sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__", "sys.stdin.newlines, sys.stdin.buffer.raw.name, sys.stdin.buffer.raw.closefd",
		"__name__, __file__, __doc__, __package__, __spec__, __loader__", "sorted(globals())", "__builtins__", "sys.modules['__main__'].__dict__ is globals()",
		"sys._getframe().f_back", "sys._getframe().f_code.co_filename", "sys._getframe().f_lineno", "sys.modules.get('sitecustomize')", "'resource' in sys.modules, '_socket' in sys.modules",
	} {
		add("import sys\nprint(" + what + ")")
	}
	// System properties of the process.
	for _, what := range []string{
		"os.getcwd()", "dict(os.environ)", "sorted(os.environ)", "os.getuid(), os.getgid(), os.geteuid(), os.getegid()", "os.getgroups()", "os.getresuid(), os.getresgid()",
		"os.getpid() == os.getpgid(0) == os.getsid(0)", "os.getppid() > 0", "os.umask(0)", "sorted(os.listdir('/proc/self/fd'))", "os.listdir('/proc/self/task') == [str(os.getpid())]",
		"os.nice(0)", "os.sched_getaffinity(0)", "os.sched_getscheduler(0)", "open('/proc/self/cmdline').read()", "open('/proc/self/comm').read()",
		"open('/proc/self/oom_score_adj').read()", "os.readlink('/proc/self/cwd'), os.readlink('/proc/self/root'), os.readlink('/proc/self/exe')",
		"open('/proc/self/timerslack_ns').read()", "open('/proc/self/loginuid').read()", "os.isatty(0), os.isatty(1), os.isatty(2)", "os.getloadavg() is not None",
		"os.path.abspath('x')", "os.path.expanduser('~')", "os.get_exec_path()", "os.cpu_count()", "os.uname()", "os.access('/', os.W_OK)", "os.access('/run', os.W_OK)",
		"[os.get_inheritable(fd) for fd in (0, 1, 2)]", "[os.fstat(fd).st_mode for fd in (0, 1, 2)]", "[os.fstat(fd).st_uid for fd in (1, 2)]", "os.readlink('/proc/self/fd/0')",
		"[os.get_blocking(fd) for fd in (0, 1, 2)]", "os.pathconf('/', 'PC_NAME_MAX')", "os.terminal_size((1, 2))", "os.supports_fd is not None",
	} {
		add("import os, sys\nprint(" + what + ")")
	}
	for _, field := range []string{
		"Umask", "Uid", "Gid", "Groups", "Threads", "SigQ", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
		"Seccomp", "Seccomp_filters", "Speculation_Store_Bypass", "Cpus_allowed", "Mems_allowed", "CoreDumping", "THP_enabled", "TracerPid",
	} {
		add(fmt.Sprintf("for line in open('/proc/self/status'):\n    if line.startswith(%q): print(line)", field+":"))
	}
	for _, name := range []string{"NOFILE", "NPROC", "CORE", "CPU", "FSIZE", "STACK", "DATA", "AS", "MEMLOCK", "RSS", "NICE", "MSGQUEUE", "SIGPENDING"} {
		add("import resource\nprint(resource.getrlimit(resource.RLIMIT_" + name + "))")
	}
	for _, name := range []string{"cgroup", "ns/pid", "ns/net", "ns/mnt", "ns/user", "ns/uts", "ns/ipc", "ns/cgroup"} {
		if name == "cgroup" {
			add("import re\nprint(re.sub(r'exec-\\d+', 'exec', open('/proc/self/cgroup').read()))")
			continue
		}
		add("import os\nprint(os.readlink('/proc/self/" + name + "'))")
	}
	for n := 1; n < 65; n += 3 {
		add(fmt.Sprintf("import signal\nprint(signal.getsignal(%d) if %d not in (32, 33) else 0, signal.pthread_sigmask(signal.SIG_BLOCK, []))", n, n))
	}
	// Statuses and exceptions at the end.
	for _, code := range []string{"0", "1", "2", "42", "255", "256", "-1", "None", "'a text'", "(1, 2)", "True", "1.5", "2**70", "b'x'", "object"} {
		add("import sys\nprint('before')\nsys.exit(" + code + ")")
		add("raise SystemExit(" + code + ")")
	}
	for _, n := range []int{0, 1, 7, 255} {
		add(fmt.Sprintf("import os\nprint('lost')\nos._exit(%d)", n), fmt.Sprintf("import os\nprint('kept', flush=True)\nos._exit(%d)", n))
	}
	for _, name := range []string{"INT", "TERM", "KILL", "HUP", "QUIT", "USR1", "USR2", "PIPE", "ALRM", "ABRT", "SEGV", "XCPU", "FPE", "ILL", "SYS"} {
		add("import os, signal\nprint('before', flush=True)\nos.kill(os.getpid(), signal.SIG" + name + ")\nprint('after', flush=True)")
	}
	add(
		"1/0", "raise KeyboardInterrupt", "raise ValueError('é')", "def f(): g()\ndef g(): raise KeyError(1)\nf()", "import nothing_of_this_name", "from os import nothing",
		"try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('x') from e", "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])", "x = (", "print 'x'",
		"def f():\n  return 1\n return 2", "\x00", "# -*- coding: latin-1 -*-\nprint('x')", "print('\\ud800')", "# -*- coding: nothing -*-", "assert False, 'no'", "", "pass",
		"def f(): f()\nf()", "import sys\nsys.setrecursionlimit(50)\ndef f(n): f(n + 1)\nf(0)", "raise BaseException('b')", "raise GeneratorExit", "raise StopIteration(3)",
		"class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "e = ValueError(1)\ne.add_note('a note')\nraise e", "import sys\nsys.excepthook = lambda *a: print('hook', a[0])\n1/0",
		"import sys\nsys.excepthook = None\n1/0", "import sys\nsys.tracebacklimit = 0\n1/0", "import traceback\ntraceback.print_stack()", "import inspect\nprint(len(inspect.stack()))",
		"import warnings\nwarnings.warn('w')", "import warnings\nwarnings.warn('w', stacklevel=2)", "import warnings\nwarnings.warn('d', DeprecationWarning)", "import faulthandler\nprint(faulthandler.is_enabled())",
		"import faulthandler\nfaulthandler.enable()\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "import sys\nsys.stdout.close()", "import sys\nprint('x', file=sys.stderr)\nsys.stderr.close()\n1/0",
		"import os\nos.close(1)\nprint('x')", "import os\nos.close(2)\n1/0", "import os\nos.abort()", "exit(3)", "quit()", "import sys\nsys.stdout = None\nprint('x')",
	)
	// Actions at the end.
	add(
		"import atexit\natexit.register(print, 'bye')\nprint('hi')", "import atexit\natexit.register(lambda: 1/0)", "import atexit, os\natexit.register(print, 'bye')\nos._exit(3)",
		"import atexit, sys\natexit.register(print, 1)\natexit.register(print, 2)\nsys.exit(4)", "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.01), print('t'))).start()\nprint('m')",
		"import threading\nt = threading.Thread(target=print, args=('d',), daemon=True)\nt.start(); t.join()", "import threading\nt = threading.Thread(target=lambda: 1/0)\nt.start(); t.join()",
		"import threading\nprint(threading.current_thread(), threading.main_thread() is threading.current_thread(), threading.active_count())",
		"import threading, os\nprint(threading.get_native_id() == os.getpid(), threading.main_thread().ident == threading.get_ident())",
		"import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'finalized')", "class A:\n    def __del__(self): print('del')\na = A()", "import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count())",
		"import sys\nsys.stdout.write('no newline')", "import sys\nsys.stdout.write('x' * 100000)", "print('é', '日本', '\\U0001f600')", "import sys\nsys.stdout.buffer.write(bytes(range(256)))",
		"print('a', end='', flush=True)\nprint('b')", "for i in range(1000): print(i)", "import sys\nfor i in range(100): print(i, file=sys.stderr)", "import os\nos.write(1, b'raw')", "open('/dev/stdout', 'w').write('by name\\n')",
		"open('/dev/stderr', 'w').write('by name\\n')", "open('/proc/self/fd/1', 'w').write('by fd\\n')", "print(open('/dev/stdin').read())",
	)
	const dies = "class A:\n    def __del__(self): print('del')\n"
	add(
		dies+"a = A(); a.a = a", dies+"a = A(); b = [a]; b.append(b)\ndef f(): return a", dies+"import gc\na = A(); a.a = a; del a\nprint(gc.collect() > 0, gc.get_freeze_count(), len(gc.get_objects()) > 4000)",
		dies+"import sys, builtins\nsys.x = builtins.y = A()\nsys.excepthook = lambda *a: print('hook', a[0])\n1/0", dies+"import functools\n@functools.lru_cache\ndef f(x): return x\nf(A())",
		dies+"import threading\nl = threading.local(); l.x = A()", "class M(type):\n    def __del__(cls): print('class', cls.__name__)\nclass A(metaclass=M): pass",
		"import os\nclass A(os.PathLike):\n    def __fspath__(self): return 'x'\n    def __del__(self): print('path')\na = A(); a.a = a", "def g():\n    try: yield 1\n    finally: print('closed')\ni = g(); next(i)",
		"import weakref\nclass A: pass\na = A(); a.me = a\nr = weakref.ref(a, lambda _: print('dead'))",
	)
	// Calls that a tracer and a profiler see until the end.
	add(
		"import sys\nsys.settrace(lambda f, e, a: sys.__stderr__.write(f'{e} {f.f_code}\\n'))", "import sys\nsys.setprofile(lambda f, e, a: sys.__stderr__.write(f'{e} {f.f_code} {a}\\n'))",
		"import atexit, sys\natexit.register(lambda: sys.setprofile(lambda f, e, a: sys.__stderr__.write(f'{e} {f.f_code}\\n')))", "import atexit, sys, threading\nsys.settrace(lambda *a: print(a[1]))\natexit.register(print, 'bye')",
	)
	// Processes.
	add(
		"import os\npid = os.fork()\nif pid: print(os.waitpid(pid, 0)[1])\nelse: os._exit(3)", "import os\nif os.fork() == 0:\n    print('child', flush=True)\n    os._exit(0)\nos.wait()\nprint('parent')",
		"import subprocess\nprint(subprocess.run(['sh', '-c', 'echo $0 $PWD; exit 3'], capture_output=True))", "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys; print(sys.argv, sys.path)'], capture_output=True))",
		"import subprocess\nprint(subprocess.run('env', capture_output=True, text=True).stdout.replace('_=/usr/bin/env', ''))", "import subprocess\nsubprocess.run(['ls', '-l', '/proc/self/fd/0'], stdout=subprocess.DEVNULL)",
		"import subprocess\nprint(subprocess.run(['sh', '-c', 'ulimit -a'], capture_output=True, text=True).stdout)", "import subprocess\nprint(subprocess.run(['sh', '-c', 'ls /proc/$$/fd'], capture_output=True, text=True).stdout)",
		"import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import os; print(os.getppid())'], capture_output=True, text=True).stdout == str(__import__('os').getpid()) + '\\n')",
		"import multiprocessing as m\nif __name__ == '__main__':\n    m.set_start_method('fork')\n    with m.Pool(2) as p: print(p.map(abs, [-1, -2, 3]))",
		"import multiprocessing as m\ndef f(q): q.put(__name__)\nif __name__ == '__main__':\n    c = m.get_context('spawn')\n    q = c.Queue()\n    p = c.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join(); print(p.exitcode)",
		"import multiprocessing as m\nprint(m.current_process(), m.get_start_method(), m.parent_process())", "from concurrent.futures import ThreadPoolExecutor as T\nwith T(3) as t: print(list(t.map(str, range(5))))",
		"import os\nos.execv('/bin/echo', ['echo', 'executed'])", "import os, sys\nos.execv(sys.executable, ['python3', '-c', 'print(1); import os; print(dict(os.environ))'])", "import os\nos.setsid()", "import os\nprint(os.getpgrp() == os.getpid(), os.tcgetpgrp(0) if os.isatty(0) else '')",
		"import os, signal, time\nsignal.signal(signal.SIGALRM, lambda *a: print('alarm'))\nsignal.setitimer(signal.ITIMER_REAL, .01)\nsignal.pause()", "import signal, os\nsignal.signal(signal.SIGINT, lambda *a: print('int'))\nos.kill(0, signal.SIGINT)",
		"import signal, threading\nprint(signal.default_int_handler is signal.getsignal(signal.SIGINT))", "import os\nr, w = os.pipe()\nprint(r, w)", "f = open('main.py')\nprint(f.fileno())", "import socket\na, b = socket.socketpair()\na.send(b'x'); print(b.recv(1), a.fileno())",
		"import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\nprint(asyncio.run(f()))", "import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n    return await p.communicate()\nprint(asyncio.run(f()))",
		"import os\nprint(os.system('exit 5'))", "import os\nprint(os.popen('echo hi').read())", "import tempfile, os\nwith tempfile.NamedTemporaryFile() as f: print(os.path.dirname(f.name))", "import ctypes\nprint(ctypes.CDLL(None).getpid() == __import__('os').getpid())",
	)
	// Modules and randomness.
	for _, module := range strings.Fields("json re math random hashlib datetime collections itertools csv sqlite3 decimal fractions statistics uuid zlib struct string textwrap urllib.parse pathlib dataclasses typing enum logging argparse unittest email html xml.etree.ElementTree socket ssl select resource pwd grp locale calendar heapq bisect copy pprint pickle base64 binascii secrets tempfile shutil glob fnmatch io time timeit contextlib functools operator ast dis inspect importlib platform sysconfig site queue") {
		add("import " + module + " as m, sys\nprint(m.__name__, getattr(m, '__file__', None))")
	}
	add(
		"import random\nrandom.seed(1)\nprint(random.random(), random.sample(range(9), 4))", "import sub.inner\nprint(sub.inner.where, sub.__path__)", "from sub import inner\nprint(inner.__file__)", "import main\nprint(main.__name__, main is __import__('__main__'))",
		"import locale\nprint(locale.getlocale(), locale.setlocale(locale.LC_ALL, ''), locale.getpreferredencoding())", "import time\nprint(time.tzname, time.timezone)", "import time\nprint(time.process_time() < 5, time.thread_time() < 5)",
		"import runpy\nprint(runpy.run_path('main.py', run_name='other')['__name__']) if __name__ == '__main__' else None", "import code\ncode.interact(banner='b', readfunc=lambda p: exit())", "import pdb\nprint(pdb.__name__)", "import site\nprint(site.ENABLE_USER_SITE, site.USER_SITE, site.USER_BASE)",
		"import importlib.metadata as m\nprint(len(list(m.distributions())) >= 0)", "import builtins\nprint(sorted(vars(builtins)))", "print(help, copyright, credits, license, exit)", "print(__annotations__ if '__annotations__' in globals() else None)\nx: int = 3\nprint(__annotations__)", "import platform\nprint(platform.platform(), platform.python_build())",
		"print(hash(1), hash(1.5), hash((1, 2)))", "import logging\nlogging.warning('w')", "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 1)\nunittest.main(verbosity=0)", "import __main__\nprint(__main__.__file__)", "open('written.txt', 'w').write('x')\nprint(open('written.txt').read())",
		"import os\nos.makedirs('d/e', exist_ok=True); os.chdir('d/e'); print(os.getcwd(), os.path.relpath('/workspace'))", "import sys\nsys.path.insert(0, 'sub')\nimport inner\nprint(inner.where)", "import zipfile, sys\nzipfile.ZipFile('m.zip', 'w').writestr('zipped.py', 'x = 5')\nsys.path.insert(0, 'm.zip')\nimport zipped\nprint(zipped.x)",
	)
	// Standard input.
	for _, in := range []string{"hello\n", "no newline", "a\r\nb\n", "é\n", strings.Repeat("x", 70000), "1\n2\n3\n"} {
		for _, text := range []string{"print(input())", "import sys\nprint(repr(sys.stdin.read()))", "import sys\nfor line in sys.stdin: print(repr(line), len(line))", "import sys\nprint(sys.stdin.buffer.read(3), sys.stdin.readline()[:9], sys.stdin.fileno(), sys.stdin.seekable())",
			"import os, stat\nprint(stat.S_ISFIFO(os.fstat(0).st_mode), len(os.read(0, 5)))"} {
			list = append(list, warmProgram{text: text, stdin: in})
		}
	}
	// Ends from outside.
	for _, text := range []string{"import time\nprint('up', flush=True)\ntime.sleep(100)", "print('up', flush=True)\nwhile True: pass", "import signal, time\nsignal.signal(signal.SIGTERM, lambda *a: (print('term', flush=True), exit(7)))\nprint('up', flush=True)\ntime.sleep(100)"} {
		list = append(list, warmProgram{text: text, until: "up\n"})
	}
	return list
}
