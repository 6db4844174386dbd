//go:build linux

package guest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// shown is a result of a kernel.
type shown struct {
	Type   string         `json:"type"`
	Data   map[string]any `json:"data"`
	Name   string         `json:"name"`
	Value  string         `json:"value"`
	Text   string         `json:"text"`
	Prompt string         `json:"prompt"`
	Frames []struct {
		File, Function, Source string
		Line                   int
	} `json:"frames"`
	Traceback string   `json:"traceback"`
	Matches   []string `json:"matches"`
}

// cell is the outcome of a cell.
type cell struct {
	out, errs string
	results   []shown
	order     string // of streams: o, e and r
	exit      wire.Exit
}

func (c cell) plain() string {
	for _, r := range c.results {
		if r.Type == "value" {
			text, _ := r.Data["text/plain"].(string)
			return text
		}
	}
	return ""
}

// notebook is a host's kernel.
type notebook struct {
	*term
	kernel string
}

func (h *host) notebook(kernel string) *notebook {
	s := h.shell()
	s.spec.Env[0] = "PATH=" + os.Getenv("PATH")
	return &notebook{s, kernel}
}

func (n *notebook) cell(code string) wire.Exec {
	e := n.command(code)
	e.Shell.Name, e.Shell.Kernel, e.Shell.Separate = "context/"+n.kernel, n.kernel, true
	return e
}

func (n *notebook) follow(l *line, until string) (c cell) {
	n.Helper()
	var lines string
	for {
		f := l.next()
		if f.Kind != wire.KindOutput {
			r := l.decode(f)
			if r.Error != nil {
				n.Fatalf("error: %v", r.Error)
			}
			if r.Exit == nil {
				continue
			}
			c.exit = *r.Exit
			for text := range strings.Lines(lines) {
				var r shown
				if err := json.Unmarshal([]byte(text), &r); err != nil {
					n.Errorf("%q: %v", text, err)
				}
				c.results = append(c.results, r)
			}
			return c
		}
		at, stream, data, err := f.Output()
		if err != nil {
			n.Fatal(err)
		}
		c.order += string("?oer"[stream])
		switch stream {
		case wire.Stdout:
			c.out += string(data)
		case wire.Stderr:
			c.errs += string(data)
		case wire.Result:
			lines += string(data)
		}
		position := at + int64(len(data))
		l.json(wire.KindControl, wire.Control{Ack: &position})
		if until != "" && strings.Contains(c.out+lines, until) {
			return c
		}
	}
}

func (n *notebook) run(code string) cell {
	n.Helper()
	return n.follow(n.exec(n.cell(code)), "")
}

// wants runs a cell and checks the text of its value.
func (n *notebook) wants(code, value string) {
	n.Helper()
	c := n.run(code)
	if got := c.plain(); got != value || c.exit.Code != 0 {
		n.Errorf("%q: %q, want %q: %+v", code, got, value, c)
	}
}

// fails runs a cell and returns its error.
func (n *notebook) fails(code, name string) shown {
	n.Helper()
	c := n.run(code)
	for _, r := range c.results {
		if r.Type == "error" && r.Name == name && c.exit.Code != 0 && strings.Contains(c.errs, name) {
			return r
		}
	}
	n.Errorf("%q: no %s: %+v", code, name, c)
	return shown{}
}

func TestPlainPythonKernel(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.wants("x = 41", "")
	n.wants("x + 1", "42")
	n.wants("_ + 1", "43")
	n.wants("x;", "")
	n.wants("(x) ; # not shown", "")
	n.wants("'é', x # shown;", "('é', 41)")
	n.wants("import asyncio\nawait asyncio.sleep(0, 'awaited')", "'awaited'")
	n.wants("def f(a):\n    return a / 0\n", "")
	if c := n.run("print('out'); import sys; print('err', file=sys.stderr); import os; os.system('echo child')"); c.out != "out\nchild\n" || c.errs != "err\n" || c.plain() != "0" {
		t.Errorf("%+v", c)
	}
	e := n.fails("1\nf(2)", "ZeroDivisionError")
	if len(e.Frames) != 2 || e.Frames[0].File != "<cell 10>" || e.Frames[0].Line != 2 || e.Frames[1].Function != "f" || e.Frames[1].Source != "return a / 0" {
		t.Errorf("%+v", e)
	}
	if e := n.fails("1\nif True", "SyntaxError"); len(e.Frames) != 1 || e.Frames[0].File != "<cell 11>" || e.Frames[0].Line != 2 || e.Frames[0].Source != "if True" {
		t.Errorf("%+v", e)
	}
	n.fails("nothing", "NameError")
	// A result comes after all earlier output.
	c := n.run("print(1)\ndisplay('a')\nprint(2)\ndisplay('b')\n'c'")
	if !strings.HasPrefix(c.order, "o") || !strings.HasSuffix(c.order, "r") || len(c.results) != 3 {
		t.Errorf("%+v", c)
	}
	// Representations.
	c = n.run("class P:\n  def _repr_html_(self): return '<b>'\n  def _repr_png_(self): return b'png'\nP()")
	if d := c.results[0].Data; d["text/html"] != "<b>" || d["image/png"] != "cG5n" || !strings.HasPrefix(d["text/plain"].(string), "<__main__.P") {
		t.Errorf("%+v", c)
	}
	n.wants("_ = str.upper", "") // the program's own variable stays
	n.wants("_('a')", "'A'")
	n.wants("_('b')", "'B'")
	n.wants("del _; 1", "1")
	n.wants("_ + 1", "2")
	n.wants("\ufeffx # of a file that begins with a mark", "41")
	n.wants("from __future__ import annotations", "")
	n.wants("def later(a: Undefined): pass\nlater.__annotations__", "{'a': 'Undefined'}")
	n.wants("class Mute:\n    def _repr_html_(self): return BadText()\n    def __repr__(self): return 'mute'\nclass BadText:\n    def __str__(self): 1/0\nMute()", "mute")
	n.wants("{'a': [1, 2]}", "{'a': [1, 2]}")
	c = n.run("from IPython.display import HTML, display as show\nshow(HTML('<i>'), 5)\ndisplay({'text/latex': '$x$'}, raw=True)")
	if len(c.results) != 3 || c.results[0].Data["text/html"] != "<i>" || c.results[2].Data["text/latex"] != "$x$" {
		t.Errorf("%+v", c)
	}
	c = n.run("display({'text/html': 'x' * 10**7}, raw=True)\n'y' * 10**6")
	if text, _ := c.results[0].Data["text/plain"].(string); !strings.Contains(text, "left out") || c.results[0].Data["text/html"] != nil || len(c.plain()) > 300_000 {
		t.Errorf("%.2000v", c)
	}
	// Magics.
	n.wants("name = 'World'\nout = !echo hello {name}\nout", "['hello World']")
	n.wants("text = '''it\\'s \\\n%cd /\n!echo''' # '''\n!true\ntext", `"it's %cd /\n!echo"`)
	n.wants("name = 7\nout = (name\n%2, '(', '''\n!x''', 'a\\\n%b', name \\\n%3)\n!true\nout", `(1, '(', '\n!x', 'a%b', 1)`)
	n.wants("out = !echo a \\\n  b\nout", "['a b']")
	for code, line := range map[string]int{"!true\nx = = 1": 2, "x = (1,\n!true": 1, "if True:\n  %cd \\\n /\n  x = = 1": 4} {
		if e := n.fails(code, "SyntaxError"); strings.Contains(e.Traceback, "During handling") || len(e.Frames) != 1 || e.Frames[0].Line != line {
			t.Errorf("%q: %+v", code, e)
		}
	}
	if e := n.fails("name = 1\n%cd /nowhere", "FileNotFoundError"); !strings.Contains(e.Traceback, "    %cd /nowhere\n") {
		t.Errorf("%+v", e)
	}
	if c := n.run("%%bash\nprint=1; echo ${print} {print}"); c.out != "1 {print}\n" || c.exit.Code != 0 {
		t.Errorf("%+v", c)
	}
	if e := n.fails("%%bash\necho out\nexit 3", "RuntimeError"); e.Value != "%%bash ended with exit code 3" {
		t.Errorf("%+v", e)
	}
	if c := n.run("!echo $((1+1)) && exit 3"); c.out != "2\n" || c.exit.Code != 0 {
		t.Errorf("%+v", c)
	}
	n.wants("_exit_code", "3")
	if c := n.run("!echo windows\r\n!echo lines\r\n"); c.out != "windows\nlines\n" {
		t.Errorf("%+v", c)
	}
	if e := n.fails("%pip install six", "PermissionError"); !strings.Contains(e.Value, "network is denied") || strings.Count(e.Traceback, "File ") != 1 {
		t.Errorf("%+v", e)
	}
	n.fails("%nothing", "NameError")
	// Exits, input, and forks.
	if c := n.run("import sys; sys.exit(3)"); c.exit.Code != 3 || c.exit.Shell.Replaced {
		t.Errorf("%+v", c)
	}
	if e := n.fails("input('?')", "EOFError"); !strings.Contains(e.Value, "write the answer into the code") {
		t.Errorf("%+v", e)
	}
	in := n.cell("input('name? ') + '!'")
	in.Stdin = true
	l := n.exec(in)
	if c := n.follow(l, `"input"`); !strings.Contains(c.out, "name? ") {
		t.Errorf("%+v", c)
	}
	if err := l.w.Data([]byte("Ada\n")); err != nil {
		t.Fatal(err)
	}
	if c := n.follow(l, ""); c.plain() != "'Ada!'" {
		t.Errorf("%+v", c)
	}
	if c := n.run("import os, time\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('here')"); strings.Count(c.out, "here") != 2 || c.exit.Code != 0 {
		t.Errorf("%+v", c)
	}
	// If a cell closes its streams, the next one has its own.
	for _, code := range []string{"os.close(1)", "os.close(0); os.close(1); os.close(2)"} {
		if c := n.run("import os; " + code); c.exit.Code != 0 {
			t.Errorf("%q: %+v", code, c)
		}
		if c := n.run("print('out'); sys.stderr.write('err'); os.system('echo child')"); c.out != "out\nchild\n" || c.errs != "err" || c.exit.Code != 0 {
			t.Errorf("after %q: %+v", code, c)
		}
	}
	n.wants("x", "41")
	done := n.cell("import o")
	done.Shell.Complete = true
	if c := n.follow(n.exec(done), ""); len(c.results) != 1 || !strings.Contains(strings.Join(c.results[0].Matches, " "), "operator") {
		t.Errorf("%+v", c)
	}
	// An interrupt keeps the variables, and so does a timeout.
	for _, code := range []string{"while True: pass", "import time; time.sleep(100)", "import asyncio\nawait asyncio.sleep(100)", "!sleep 100"} {
		l := n.exec(n.cell("print('up', flush=True)\n" + code))
		n.follow(l, "up")
		l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: enough}})
		if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced || !strings.Contains(c.errs, "KeyboardInterrupt") && !strings.Contains(c.errs, "Command failed: sleep") { // the child may end first
			t.Errorf("%q: %+v", code, c)
		}
	}
	n.wants("x", "41")
	testTroublemakers(n)
	// The death of a kernel is reported, and the next cell has a new one.
	if c := n.run("import os, signal; print('last'); os.kill(os.getpid(), signal.SIGKILL)"); c.out != "last\n" || c.exit.Signal != int(unix.SIGKILL) || !c.exit.Shell.Replaced {
		t.Errorf("%+v", c)
	}
	n.fails("x", "NameError")
	shells := n.ask(wire.Request{Op: wire.OpShells}).reply().Shells
	if len(shells) != 1 || shells[0].Name != "context/python" || !shells[0].Alive || shells[0].Busy || shells[0].Kernel != wire.KernelPython || shells[0].Runs < 10 {
		t.Errorf("%+v", shells)
	}
	// Ending a kernel ends its cells.
	n.run("y = 1")
	l = n.exec(n.cell("print('up', flush=True)\nimport time\nwhile True:\n  try: time.sleep(100)\n  except KeyboardInterrupt: pass"))
	n.follow(l, "up")
	waits := n.exec(n.cell("1"))
	waits.started()
	if !n.ask(wire.Request{Op: wire.OpEndShell, ID: "context/python"}).reply().Done {
		t.Error("it cannot be ended")
	}
	if c := n.follow(l, ""); c.exit.Code == 0 {
		t.Errorf("%+v", c)
	}
	if c := n.follow(waits, ""); c.exit.Cause != wire.CauseEnded {
		t.Errorf("%+v", c)
	}
	if list := n.ask(wire.Request{Op: wire.OpShells}).reply().Shells; len(list) > 0 {
		t.Errorf("%+v", list)
	}
	n.fails("y", "NameError")
}

// testTroublemakers runs objects and cells that would break a careless kernel. All of them keep the variables.
func testTroublemakers(n *notebook) {
	n.Helper()
	n.run("class Bad:\n  def __init__(self, do): self.do = do\n  def __repr__(self): return self.do()\n  __str__ = __repr__\ndef dies(): raise SystemExit(3)\ndef waits():\n  while True: pass")
	n.wants("Bad(dies)", "<Bad whose repr failed: SystemExit>")
	n.wants("Bad(lambda: 5)", "<Bad whose repr failed: TypeError>")
	if c := n.run("Bad(lambda: 'x' * (8 << 20))"); len(c.plain()) < 1<<18 || len(c.plain()) > 1<<19 || !strings.HasSuffix(c.plain(), "more characters]") {
		n.Errorf("%d characters, %+v", len(c.plain()), c.exit)
	}
	if e := n.fails("class E(Exception):\n  def __str__(self): dies()\nraise E", "E"); e.Value != "<no text>" {
		n.Errorf("%+v", e)
	}
	if e := n.fails("def down(): return down() + 1\ndown()", "RecursionError"); len(e.Frames) != 50 {
		n.Errorf("%d frames", len(e.Frames))
	}
	n.wants("import sys\nsys.displayhook = lambda x: eval('waits()')\nsys.excepthook = None\n6", "6")
	n.wants("sys.stdout.flush = dies; 7", "7")
	n.wants("sys.stdout = sys.stderr = None; 8", "8")
	n.wants("out = !echo 9\nout", "['9']")
	for _, code := range []string{"print('up', flush=True); Bad(waits)", "class F(Exception):\n  def __str__(self):\n    print('up', flush=True)\n    waits()\nraise F",
		"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); print('up', flush=True); waits()"} {
		l := n.exec(n.cell(code))
		n.follow(l, "up")
		l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: enough}})
		if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced {
			n.Errorf("%q: %+v", code, c)
		}
	}
	n.wants("x", "41")
	// The kernel has its own copy of the builtins.
	n.wants("import builtins\nkept = vars(builtins).copy()\nbuiltins.compile = builtins.eval = builtins.print = None", "")
	n.wants("vars(builtins).update(kept); 10", "10")
	// A cell that takes the kernel's own descriptors ends this kernel, but not the next.
	if c := n.run("import os; os.closerange(3, 200); 5"); c.exit.Code != 1 || !c.exit.Shell.Replaced || !strings.HasPrefix(c.errs, "the interpreter ends: ") {
		n.Errorf("%+v", c)
	}
	if c := n.run("import builtins, json\njson.dumps = builtins.len = builtins.str = None\n5"); c.exit.Code == 0 || !c.exit.Shell.Replaced {
		n.Errorf("%+v", c)
	}
	n.wants("x = 41; len('abc')", "3")
}

// The kernel of an image without IPython refuses each command.
func TestNoIPython(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelIPython)
	n.module("IPython.py", "raise ImportError('not here')")
	if e := n.fails("1", "ModuleNotFoundError"); e.Value != "the image has no IPython: not here" || len(e.Frames) != 0 {
		t.Errorf("%+v", e)
	}
	done := n.cell("i")
	done.Shell.Complete = true
	if c := n.follow(n.exec(done), ""); c.exit.Code != 0 || len(c.results) != 1 || c.results[0].Type != "error" {
		t.Errorf("%+v", c)
	}
}

func TestPlainNodeKernel(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal(err)
	}
	n := begin(t, guest.Config{}).notebook(wire.KernelNode)
	n.wants("const x = 41", "")
	n.wants("x + 1", "42")
	n.wants("const x = 1; let y = 2; x + y", "3")
	n.wants("const z = await new Promise((ok) => setTimeout(ok, 1, 'awaited')); z", "'awaited'")
	n.wants("import os, { cpus as list } from 'node:os'\nimport * as fs from 'fs';\n[typeof os.cpus, typeof list, typeof fs.readFileSync, 'import(1)']",
		"[ 'function', 'function', 'function', 'import(1)' ]")
	n.wants("import std, * as all from 'node:fs'\n[std === all.default, `\nimport fs from 'fs';\n`] // shown;", "[ true, \"\\nimport fs from 'fs';\\n\" ]")
	n.wants("x; // not shown", "")
	n.wants("(await import('path')).basename('/a/b')", "'b'")
	n.wants("require('path').basename('/a/b')", "'b'")
	n.wants("function f() { throw new TypeError('bad') }", "")
	if c := n.run("console.log('out'); console.error('err'); require('child_process').execSync('echo child', {stdio: 'inherit'}); 5"); c.out != "out\nchild\n" || c.errs != "err\n" || c.plain() != "5" {
		t.Errorf("%+v", c)
	}
	e := n.fails("1\nf()", "TypeError")
	if e.Value != "bad" || len(e.Frames) != 2 || e.Frames[0].Line != 2 || e.Frames[1].Function != "f" || !strings.Contains(e.Frames[1].Source, "throw new") {
		t.Errorf("%+v", e)
	}
	e = n.fails("1\nlet 5 = 3", "SyntaxError")
	if len(e.Frames) != 1 || e.Frames[0].Line != 2 || e.Frames[0].Source != "let 5 = 3" || !strings.Contains(e.Traceback, ">:2\nlet 5 = 3\n    ^\n\nSyntaxError") {
		t.Errorf("%+v", e)
	}
	if e := n.fails("let z = `1\n2", "SyntaxError"); len(e.Frames) != 1 || e.Frames[0].Line != 2 {
		t.Errorf("%+v", e)
	}
	if e := n.fails("JSON.parse('{')", "SyntaxError"); strings.Contains(e.Traceback, "^") {
		t.Errorf("%+v", e)
	}
	n.fails("await Promise.reject(new RangeError('r'))", "RangeError")
	c := n.run("console.log(1); display({'text/html': '<b>'}); console.log(2); ({a: 1})")
	if !strings.HasPrefix(c.order, "o") || c.results[0].Data["text/html"] != "<b>" || c.results[1].Data["application/json"] == nil {
		t.Errorf("%+v", c)
	}
	// An error's properties are shown in addition to its stack, without the frames of this program.
	e = n.fails("await null; const inner = new Error('inner'); throw new Error('outer', { cause: inner })", "Error")
	if !strings.Contains(e.Traceback, "[cause]: Error: inner\n") || strings.Contains(e.Traceback, "kernel") || strings.Contains(e.Traceback, "node:") {
		t.Errorf("%+v", e)
	}
	e = n.fails("await Promise.any([1, 2].map(async (i) => { throw Object.assign(new Error('part ' + i), { code: 'E' + i }) }))", "AggregateError")
	if !strings.Contains(e.Traceback, "Error: part 2\n") || !strings.Contains(e.Traceback, "code: 'E1'") {
		t.Errorf("%+v", e)
	}
	// So are uncaught errors, by the cell that runs then or the next one, which do not fail.
	for code, text := range map[string]string{
		"Promise.reject(new Error('rejected')); 5": "Uncaught Error: rejected\n    at <cell", "(async () => { throw 7 })(); 5": "Uncaught 7\n",
		"setTimeout(() => { throw new Error('timer') }); await new Promise((ok) => setTimeout(() => setTimeout(ok))); 5": "Uncaught Error: timer\n    at ",
	} {
		if c := n.run(code); !strings.HasPrefix(c.errs, text) || c.plain() != "5" || len(c.results) != 1 || c.exit.Code != 0 {
			t.Errorf("%q: %+v", code, c)
		}
	}
	n.run("setImmediate(() => setImmediate(() => { throw new Error('between') }))")
	if c := n.run("await new Promise((ok) => setTimeout(ok)); 6"); !strings.HasPrefix(c.errs, "Uncaught Error: between\n") || c.plain() != "6" || c.exit.Code != 0 {
		t.Errorf("%+v", c)
	}
	// Imports are found next to regular expressions, templates and divisions, but not in texts.
	n.wants("/['\"`/*]/.test('`') && (await import('path')).basename('/a/b')", "'b'")
	n.wants("const q = 4; [q /2, `${`${(await import('path')).basename('/a/b')} import(1)`} } import(1)`, q/ 2]", "[ 2, 'b import(1) } import(1)', 2 ]")
	n.wants("const s2 = { a: '}' }; `${ s2.a /* } import(1) */ }`; typeof import('path').then", "'function'")
	if c := n.run("new Error('shown', { cause: new Error('too') })"); strings.Contains(c.plain(), "kernel") || !strings.Contains(c.plain(), "Error: too\n") {
		t.Errorf("%+v", c)
	}
	n.wants("{\"a\": 1}", "{ a: 1 }")
	n.wants("{ a: [await 1], ...{ b: 2 } }\n", "{ a: [ 1 ], b: 2 }")
	n.wants("{ const inside = 3; inside }", "3")
	n.wants("Symbol('s')", "Symbol(s)")
	n.wants("typeof _", "'symbol'")
	n.wants("'s'", "'s'")
	n.wants("10n", "10n")
	n.wants("null", "null")
	n.wants("NaN", "NaN")
	for _, code := range []string{"console.log('up'); while (true) {}", "console.log('up'); await new Promise((ok) => setTimeout(ok, 1e6))",
		"setTimeout(() => { console.log('up'); while (true) {} }); await new Promise(() => {})", "await null; console.log('up'); for (;;) await null",
		"console.log('up'); require('child_process').execSync('sleep 1000')", "process.removeAllListeners('SIGINT'); console.log('up'); await new Promise(() => {})",
		"console.log('up'); display({'text/plain': {toString() { while (true) {} }}})",
		"console.log('up'); process.stdout._write = () => { while (true) {} }; console.log('in a write'); while (true) {}"} {
		t.Log(code)
		l := n.exec(n.cell(code))
		n.follow(l, "up")
		l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: enough}})
		if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced || !strings.Contains(c.errs, "KeyboardInterrupt") && !strings.Contains(c.errs, "Command failed: sleep") { // the child may end first
			t.Errorf("%q: %+v", code, c)
		}
	}
	for _, code := range []string{"const e1 = new Error('x'); e1.name = { toString() { throw 2 } }; throw e1", "throw Object.defineProperty(new Error('x'), 'stack', { get() { throw 3 } })",
		"throw new Proxy({}, { get() { throw 4 }, getPrototypeOf() { throw 5 } })"} {
		if e := n.fails(code, "Error"); !strings.Contains(e.Value, "cannot be shown") && e.Value != "3" && e.Value != "5" {
			t.Errorf("%q: %+v", code, e)
		}
	}
	n.fails("Error.prepareStackTrace = () => { throw 6 }; null.x", "Error")
	n.wants("delete Error.prepareStackTrace", "true")
	// A reader gets all of its input, also if it is interrupted before it has opened its streams.
	for _, until := range []string{"up", ""} {
		asks := n.cell("prompt('up')")
		asks.Stdin = true
		l := n.exec(asks)
		if until != "" {
			n.follow(l, until)
		}
		l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: enough}})
		if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced {
			t.Errorf("%q: %+v", until, c)
		}
	}
	if e := n.fails("setTimeout(() => {}); (() => { [1].map(() => { null.x }) })()", "TypeError"); strings.Contains(e.Traceback, "node:") || len(e.Frames) != 3 {
		t.Errorf("%+v", e)
	}
	// No output of later cells is lost after a stream was interrupted during a write, or was closed.
	if c := n.run("delete process.stdout._write; for (const fd of [0, 1, 2]) require('fs').closeSync(fd); console.log('lost'); console.error('lost')"); c.exit.Code != 0 || c.exit.Shell.Replaced {
		t.Errorf("%+v", c)
	}
	if c := n.run("console.log('out'); console.error('err')"); c.out != "out\n" || c.errs != "err\n" || c.exit.Code != 0 {
		t.Errorf("%+v", c)
	}
	n.wants("x", "1")
	done := n.cell("x; process.std")
	done.Shell.Complete = true
	if c := n.follow(n.exec(done), ""); len(c.results) != 1 || strings.Join(c.results[0].Matches, " ") != "process.stderr process.stdin process.stdout" {
		t.Errorf("%+v", c)
	}
	n.wants("globalThis.all = { process, Buffer }; delete globalThis.process; delete globalThis.Buffer; x", "1")
	n.wants("Object.assign(globalThis, all); x", "1")
	if c := n.run("Object.prototype.toJSON = () => 1; 5"); c.exit.Code == 0 || !c.exit.Shell.Replaced {
		t.Errorf("%+v", c)
	}
	n.wants("const x = 1; x", "1")
	if c := n.run("process.exit(4)"); c.exit.Code != 4 || !c.exit.Shell.Replaced {
		t.Errorf("%+v", c)
	}
	n.fails("x", "ReferenceError")
}
