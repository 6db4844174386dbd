//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A cell that awaits has the loop from its beginning, so that it can make tasks before the first await.
func TestPythonTasks(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.wants("import asyncio\nasync def five(): return 5\ntask = asyncio.create_task(five())\nawait task", "5")
	n.wants("tasks = [asyncio.ensure_future(five()) for _ in range(2)]; await asyncio.gather(*tasks)", "[5, 5]")
	n.wants("task = asyncio.create_task(five()); await task;", "")
	n.wants("await task\ntask.done()", "True")
	n.wants("asyncio.run(five())", "5") // a cell that does not await has no loop
	e := n.fails("task = asyncio.create_task(five())\nx = 1/0\nawait task", "ZeroDivisionError")
	if len(e.Frames) != 1 || e.Frames[0].Line != 2 || strings.Contains(e.Traceback, "asyncio") {
		t.Errorf("%+v", e)
	}
	if c := n.run("import sys\nsys.exit(3)\nawait task"); c.exit.Code != 3 || c.exit.Shell.Replaced {
		t.Errorf("%+v", c)
	}
}

// A cell that uses up all descriptors loses nothing. A cell that closes the kernel's descriptors ends that kernel, but not the next
// cell.
func TestPythonDescriptors(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.spec.Rlimits = map[string]uint64{"nofile": 200}
	n.wants("import os\nkept = []\ntry:\n  while True: kept.append(os.dup(0))\nexcept OSError as e: print(e)", "")
	if c := n.run("import sys\nprint('out'); print('err', file=sys.stderr); len(kept) > 100"); c.out != "out\n" || c.errs != "err\n" || c.plain() != "True" {
		t.Errorf("%+v", c)
	}
	n.wants("for fd in kept: os.close(fd)", "")
	n.wants("os.listdir('/proc/self/fd')[3:] # 3 is that of the folder", "['3', '98', '99']")
	n.wants("os.close(99)", "")
	l := n.exec(n.cell("print('next'); 'kept' in globals()"))
	if c := n.follow(l, ""); c.out != "next\n" || c.plain() != "False" || !c.exit.Shell.Replaced || !c.exit.Shell.Renewed {
		t.Errorf("%+v", c)
	}
	if c := n.run("import builtins\nvars(builtins).clear()"); c.exit.Code == 0 || !c.exit.Shell.Replaced || c.exit.Shell.Renewed || strings.Contains(c.errs, "Traceback") {
		t.Errorf("%+v", c)
	}
}

// Code after code that ended its interpreter begins in a new one, though it has not lost that itself. The first code, and a replay, do not.
func TestPythonRenewed(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	for _, c := range []struct {
		code              string
		fresh             bool
		replaced, renewed bool
	}{
		{"x = 1", false, false, false},
		{"x = 2", false, false, false},
		{"import os; os._exit(0)", false, true, false},
		{"y = 1", false, false, true},
		{"os = __import__('os'); os._exit(0)", false, true, false},
		{"z = 1", true, false, false},
		{"z = 2", false, false, false},
	} {
		spec := n.cell(c.code)
		spec.Shell.Fresh = c.fresh
		if got := n.follow(n.exec(spec), "").exit.Shell; got.Replaced != c.replaced || got.Renewed != c.renewed {
			t.Errorf("%s: %+v", c.code, got)
		}
	}
}

// Code that ends its interpreter has its CPU time.
func TestPythonUsageOfALastCell(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.run("import os, time\nwhile time.process_time() < 0.3: pass")
	c := n.run("since = time.process_time()\nwhile time.process_time() < since + 0.3: pass\nos._exit(0)")
	if used := c.exit.Usage.UserMicros + c.exit.Usage.SystemMicros; used < 250_000 || used > 500_000 || c.exit.Usage.Source == "" || !c.exit.Shell.Replaced {
		t.Errorf("%+v", c.exit)
	}
}

// Dictionaries are shown in insertion order.
func TestPythonOrder(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.wants("{'b': 1, 'a': {'z': 1, 'y': 2}}", "{'b': 1, 'a': {'z': 1, 'y': 2}}")
	n.wants("{3, 1, 2}", "{1, 2, 3}")
}

// A cell that computes between two awaits is interrupted like one that awaits.
func TestPythonInterruptedTask(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.wants("x = 41", "")
	l := n.exec(n.cell("import asyncio, time\nawait asyncio.sleep(0)\nprint('up', flush=True)\ntime.sleep(100)"))
	n.follow(l, "up")
	l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: enough}})
	if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced || !strings.Contains(c.errs, "KeyboardInterrupt") {
		t.Errorf("%+v", c)
	}
	n.wants("await asyncio.sleep(0, x)", "41")
}

// An interrupt does not end processes of earlier cells, even while a thread waits for one.
func TestPythonServerOfAThread(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.wants(`import subprocess, threading, time
ready = threading.Event()
def serve():
  global server
  server = subprocess.Popen(['sleep', '1000'])
  ready.set()
  server.wait()
threading.Thread(target=serve, daemon=True).start()
ready.wait()`, "True")
	l := n.exec(n.cell("print('up', flush=True)\ntime.sleep(100)"))
	n.follow(l, "up")
	l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: enough}})
	if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced {
		t.Errorf("%+v", c)
	}
	n.wants("open('/proc/%d/stat' % server.pid).read().split()[2] # it sleeps", "'S'")
}

// Each cell shows its warnings, also if an earlier one showed the same.
func TestPythonWarnings(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	for range 2 {
		if c := n.run("import warnings\nwarnings.warn('careful')"); strings.Count(c.errs, "UserWarning: careful") != 1 {
			t.Errorf("%+v", c)
		}
	}
}

// A figure that cannot be drawn fails the cell that made it, but no later one. A cell that fails still shows its figures.
func TestPythonFigures(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.run(`import sys, types
plt, figures = types.ModuleType("matplotlib.pyplot"), [1]
class Figure:
    def savefig(self, *_, **__): raise ValueError("no such symbol")
plt.get_fignums, plt.figure, plt.close = lambda: figures, lambda n: Figure(), lambda which: figures.clear()
sys.modules["matplotlib.pyplot"] = plt`)
	n.wants("figures", "[]")
	n.fails("figures.append(1)", "ValueError")
	n.wants("1", "1")
	n.run("Figure.savefig = lambda *_, **__: None")
	n.fails("figures.append(1)\n1 / 0", "ZeroDivisionError")
	n.wants("figures", "[]")
}

// An exception of a signal handler between two cells has no effect.
func TestPythonSignalBetween(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.wants("import os, signal\ndef late(*_): raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, late)\nkept = os.getpid();", "")
	pid, err := strconv.Atoi(n.run("kept").plain())
	if err != nil {
		t.Fatal(err)
	}
	waits := func() bool {
		call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		if err != nil {
			t.Fatal(err)
		}
		return strings.HasPrefix(string(call), fmt.Sprintf("%d ", unix.SYS_RECVFROM))
	}
	for !waits() {
		runtime.Gosched()
	}
	if err := unix.Kill(pid, unix.SIGALRM); err != nil {
		t.Fatal(err)
	}
	n.wants("kept == os.getpid()", "True")
}

// Files of the workspace with the names of Python's own modules do not affect the kernel.
func TestPythonNames(t *testing.T) {
	h := begin(t, guest.Config{})
	for _, name := range []string{"types.py", "token.py", "socket.py", "json.py", "mine.py"} {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte("found = True"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := h.notebook(wire.KernelPython)
	n.wants("1 + 1", "2")
	n.wants("import mine\nmine.found", "True")
	n.wants("import sys\nsys.path[0]", "''")
}

// module gives the kernel a Python module, by its path in a folder of modules.
func (n *notebook) module(name, text string) {
	n.Helper()
	dir := n.TempDir()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		n.Fatal(err)
	}
	n.spec.Env = append(n.spec.Env, "PYTHONPATH="+dir)
}

// A module is adapted even if an earlier cell looked for it, and its first import failed.
func TestPythonHooks(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.module("matplotlib/pyplot.py", "import os\nif 'FAIL' in os.environ: raise KeyboardInterrupt\ndef show(): return 'not adapted'\ndef get_fignums(): return []\n")
	n.wants("import importlib.util\nimportlib.util.find_spec('matplotlib.pyplot').name", "'matplotlib.pyplot'")
	n.fails("import os\nos.environ['FAIL'] = '1'\nimport matplotlib.pyplot", "KeyboardInterrupt")
	n.wants("del os.environ['FAIL']\nimport matplotlib.pyplot as plt\nplt.show()", "")
	// The replacement for IPython has the version that matplotlib checks.
	n.wants("import sys\nsys.path[:] = [p for p in sys.path if 'packages' not in p]\nfrom IPython.display import HTML\nimport IPython\nIPython.version_info[:2] >= (8, 24)", "True")
	n.fails("import getpass\ngetpass.getpass('p', echo_char='*')", "EOFError")
}

// A pip line works like any other command: with a shell's operators, and with its output in a variable.
func TestPythonPip(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.module("pip.py", "import sys\nprint(sys.argv[1:])\nsys.exit('fail' in sys.argv)")
	n.wants("import os\nos.environ.update(PKG='six', HOME='/nowhere')\nfor name in ('a.whl', 'b.whl'): open(name, 'w').close()\npkg = 'seven'", "")
	for code, want := range map[string]string{
		"!pip list | tr a-z A-Z":               "['LIST']\n",
		"!python3 -m pip list 2>&1 > f; cat f": "['list']\n",
		"!pip list --no-index 'a>=1' b>=2":     "['list', '--no-index', 'a>=1', 'b>=2']\n",
		"%pip check && echo done":              "['check']\ndone\n",
		"!pip list six  # it's needed":         "['list', 'six']\n",
		"!pip list 'a # b' c#d --no-index":     "['list', 'a # b', 'c#d', '--no-index']\n",
		"!pip list *.whl ~/c":                  "['list', 'a.whl', 'b.whl', '/nowhere/c']\n",
		"!pip list $PKG '$PKG' b>=2 c?x&y;z":   "['list', 'six', '$PKG', 'b>=2', 'c?x&y;z']\n",
		"!pip list `echo a  b`":                "['list', 'a', 'b']\n",
		"%pip list {pkg} {nothing}":            "['list', 'seven', '{nothing}']\n",
	} {
		if c := n.run(code); c.out != want || c.exit.Code != 0 {
			t.Errorf("%q: %+v", code, c)
		}
	}
	n.wants("out = !pip list\nout", "[\"['list']\"]")
	n.fails("!pip list fail", "RuntimeError")
	n.fails("!pip list fail $PKG", "RuntimeError")
	n.fails("!pip list it's", "ValueError")
}

// Braces in a command are evaluated where the command is.
func TestPythonBraces(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.wants("def f(v):\n  out = !echo {v} {len(v)} {w}\n  return out\nv = w = 'global'\nf('local')", "['local 5 global']")
	n.wants("import os\ndef g(to):\n  %cd {to}\n  return os.getcwd()\ng('/tmp')", "'/tmp'")
}

// A magic that would have no effect is refused.
func TestPythonMagics(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	for _, code := range []string{"%load_ext autoreload", "%autoreload 2"} {
		if e := n.fails(code, "NameError"); !strings.Contains(e.Value, "ipython") {
			t.Errorf("%+v", e)
		}
	}
	n.wants("%matplotlib inline\n1", "1")
}

// Completions are names alone.
func TestPythonCompletions(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.run("d = ''")
	for code, want := range map[string]string{"d.islow": "d.islower", "d.repl": "d.replace", "tr": "try", "retu": "return"} {
		done := n.cell(code)
		done.Shell.Complete = true
		if c := n.follow(n.exec(done), ""); len(c.results) != 1 || strings.Join(c.results[0].Matches, " ") != want {
			t.Errorf("%q: %+v", code, c)
		}
	}
}

// A list or dict has a JSON form only if that is the same value.
func TestPythonJSON(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.run("class Odd(int):\n  def __eq__(self, other): 1 / 0")
	for code, want := range map[string]bool{
		"{'a': [1, 2.5, None, True, 'x']}": true, "[]": true, "{'b': {'c': {}}}": true,
		"{2: 1, 1: 2}": false, "{1: 'a', '1': 'b'}": false, "[(1, [(2,)])]": true, "{'a': (1,)}": true, "[{1: 2}]": false, "[float('nan')]": false, "[Odd(1)]": false,
	} {
		if c := n.run(code); len(c.results) != 1 || (c.results[0].Data["application/json"] != nil) != want || c.exit.Code != 0 {
			t.Errorf("%q: %+v", code, c)
		}
	}
}

// Bytes of text formats are text, and those of JSON are its value.
func TestPythonBytes(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	c := n.run(`display({'image/svg+xml': b'<svg/>', 'application/javascript': b'1', 'application/json': b'{"a": [null]}', 'a/b+json': b'{', 'image/png': b'png'}, raw=True)`)
	want := map[string]any{
		"image/svg+xml": "<svg/>", "application/javascript": "1", "application/json": map[string]any{"a": []any{nil}}, "a/b+json": "{", "image/png": "cG5n",
	}
	if len(c.results) != 1 || !reflect.DeepEqual(c.results[0].Data, want) {
		t.Errorf("%+v", c)
	}
}
