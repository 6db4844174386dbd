//go:build linux && !race

package pool_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

// sandboxEnv is an environment like that of the service's commands.
var sandboxEnv = []string{
	"HOME=/workspace", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "PWD=/workspace", "TERM=dumb", "TMPDIR=/tmp", "USER=sandbox",
}

// warmBox is a sandbox in which programs run warm and cold.
type warmBox struct {
	testing.TB
	box   runtime.Sandbox
	agent *agent.Client
	runs  int
	until string // a program's output before it is ended; "" for one that ends without help
}

func newWarmBox(t testing.TB, r runtime.Runtime, spec runtime.Spec) *warmBox {
	t.Helper()
	spec.ID = belljar.NewID()
	box, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &warmBox{TB: t, box: box, agent: agent.New(box.Dial)}
}

// newSessionBox returns the sandbox of a session, and its agent's info.
func newSessionBox(t testing.TB) (*warmBox, wire.Info) {
	t.Helper()
	spec := nativeSpec()
	spec.Limits.Pids = 200
	box := newWarmBox(t, openNative(t, t.TempDir()), spec)
	info, err := box.agent.Ping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return box, info
}

// write writes a file of the workspace.
func (b *warmBox) write(path, text string) {
	b.Helper()
	if _, err := b.agent.WriteFile(b.Context(), wire.FileRequest{Path: path, Parents: true, UID: 1000, GID: 1000}, strings.NewReader(text)); err != nil {
		b.Fatal(err)
	}
}

// logged is the output of a program, and how it ended.
type logged struct {
	out, err string
	code     int
	signal   int
	cause    wire.Cause
	warm     bool
	took     time.Duration
	usage    wire.Usage
}

func (b *warmBox) exec(e wire.Exec, stdin string) (s logged) {
	b.Helper()
	b.runs++
	e.ID = fmt.Sprintf("run-%d", b.runs)
	begin := time.Now()
	p, err := b.agent.Exec(b.Context(), e)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	s.warm = p.Started().Warm
	if e.Stdin {
		go func() {
			if _, err := p.Write([]byte(stdin)); err == nil {
				_ = p.CloseStdin() // a program need not read it
			}
		}()
	}
	var out, errs bytes.Buffer
	ended := false
	exit, err := p.Output(b.Context(), func(_ int64, stream wire.Stream, text []byte) error {
		if stream == wire.Stderr {
			errs.Write(text)
		} else {
			out.Write(text)
		}
		if ended || b.until == "" || !strings.Contains(out.String(), b.until) {
			return nil
		}
		ended = true
		return b.agent.Kill(b.Context(), e.ID, wire.Kill{End: true, GraceMS: e.GraceMS})
	})
	if err != nil {
		b.Fatal(err)
	}
	s.took = time.Since(begin)
	if err := p.Forget(); err != nil {
		b.Error(err)
	}
	s.out, s.err, s.code, s.signal, s.cause, s.usage = out.String(), errs.String(), exit.Code, exit.Signal, exit.Cause, exit.Usage
	return s
}

// program returns a command of a language.
func program(argv ...string) wire.Exec {
	return wire.Exec{
		Argv: argv, Env: sandboxEnv, UID: 1000, GID: 1000, TimeoutMS: 60_000, GraceMS: 1000,
		Rlimits: map[string]uint64{"nofile": 300, "nproc": 100, "core": 0, "cpu": 61, "fsize": 16 << 20},
	}
}

func warmed(e wire.Exec, modules ...string) wire.Exec {
	e.Warm = &wire.Warm{Preload: modules}
	return e
}

// awaitWarm runs a program until it gets a parked interpreter. The first run's end starts that interpreter.
func (b *warmBox) awaitWarm(e wire.Exec, stdin string) logged {
	b.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if s := b.exec(e, stdin); s.warm {
			return s
		} else if time.Now().After(until) {
			b.Fatalf("it never runs warm: %+v", s)
		}
	}
}

var changing = regexp.MustCompile(`pid \d+|started \d+|0x[0-9a-f]+`)

// alike fails if a program behaves differently warm and cold.
func (b *warmBox) alike(name string, cold, warm logged) {
	b.Helper()
	for _, s := range []*logged{&cold, &warm} {
		s.took, s.usage, s.warm = 0, wire.Usage{}, false
		s.out, s.err = changing.ReplaceAllString(s.out, "…"), changing.ReplaceAllString(s.err, "…")
	}
	if cold != warm {
		b.Errorf("%s:\ncold %+v\nwarm %+v", name, cold, warm)
	}
}

// A program in a session behaves the same with a parked interpreter as without one.
func TestPlainWarmIsAsCold(t *testing.T) {
	box, info := newSessionBox(t)
	t.Log("each command has a cgroup:", info.Cgroup)
	programs := warmPrograms()
	if len(programs) < 300 {
		t.Errorf("only %d programs", len(programs))
	}
	box.write("sub/inner.py", "where = __name__\n")
	box.write("main.py", "")
	e := program("python3", "main.py")
	box.awaitWarm(warmed(e), "")
	misses, step := 0, tier.Pick(24, 1)
	var coldTime, warmTime time.Duration
	for i, p := range programs {
		if i%step != 0 {
			continue
		}
		box.write("main.py", p.text)
		e := program("python3", "main.py")
		e.Stdin, box.until = p.stdin != "", p.until
		cold := box.exec(e, p.stdin)
		warm := box.exec(warmed(e), p.stdin)
		if !warm.warm {
			misses++
			warm = box.awaitWarm(warmed(e), p.stdin)
		}
		box.alike(fmt.Sprintf("program %d: %s", i, p.text), cold, warm)
		coldTime, warmTime = coldTime+cold.took, warmTime+warm.took
	}
	t.Logf("%d programs, %d misses, cold %v, warm %v", len(programs), misses, coldTime, warmTime)
}

// A ready sandbox has a parked interpreter, which is used once and behaves like a cold one. If it was killed, the program starts
// cold.
func TestPlainParkedInPool(t *testing.T) {
	r := openNative(t, t.TempDir())
	p := prime(t, r)
	for language, c := range map[string]struct{ file, text, want string }{
		"python3": {"main.py", "import os, sys\nprint(sys.argv, os.getcwd(), sorted(os.listdir('/proc/self/fd')), 'json' in sys.modules)\nclass A:\n    def __del__(self): print('end')\na = A(); a.a = a",
			"['main.py'] /workspace ['0', '1', '2', '3'] True\nend\n"},
		"node": {"main.js", "console.log(process.argv[1], process.cwd(), process.env.NODE_OPTIONS, process.execArgv, process._preload_modules, __filename, require.main === module, Object.keys(require.cache), module.children.length, process.getActiveResourcesInfo())",
			"/workspace/main.js /workspace undefined [] [] /workspace/main.js true [ '/workspace/main.js' ] 0 []\n"},
	} {
		e := program(language, c.file)
		spec := nativeSpec()
		spec.Limits.Pids = 200
		spec.Park = &runtime.Park{Argv: e.Argv, Env: e.Env, UID: e.UID, GID: e.GID, Rlimits: e.Rlimits}
		want := warmed(e)
		if language == "python3" {
			spec.Park.Preload, want = []string{"json", "ctypes", "there_is_none"}, warmed(e, "json", "ctypes", "there_is_none")
		}
		want.KillAll = true
		if !p.Await(t.Context(), spec) {
			t.Fatal("none is ready")
		}
		box := newWarmBox(t, p.Pool, spec)
		box.write(c.file, c.text)
		if got := box.exec(want, ""); !got.warm || got.out != c.want || got.code != 0 {
			t.Errorf("%s: %+v", language, got)
		}
		if got := box.exec(want, ""); got.warm { // an unshared sandbox is not used again
			t.Errorf("%s, again: %+v", language, got)
		}
		if !p.Await(t.Context(), spec) {
			t.Fatal("none is ready")
		}
		killed := newWarmBox(t, p.Pool, spec)
		killed.write(c.file, c.text)
		kill := program("sh", "-c", `for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline | grep -q "^$0 main" && kill -9 ${p#/proc/}; done; true`, language)
		if got := killed.exec(kill, ""); got.code != 0 {
			t.Errorf("%+v", got)
		}
		if got := killed.exec(want, ""); got.warm || got.code != 0 || !strings.HasPrefix(got.out, c.want[:8]) {
			t.Errorf("%s, killed: %+v", language, got)
		}
	}
}

// A parked Node ends like a cold one, whatever the program does at its end.
func TestPlainWarmNodeEnds(t *testing.T) {
	spec := nativeSpec()
	spec.Limits.Pids = 200
	box := newWarmBox(t, openNative(t, t.TempDir()), spec)
	e := program("node", "main.js")
	for i, text := range []string{
		"console.log(1)", "process.exitCode = 3", "process.exit(5)", "process.exitCode = '7'", "process.stdout.write('x'.repeat(1e6))",
		"process.on('exit', (code) => console.log('bye', code, process.exitCode))", "process.on('exit', () => { process.exitCode = 4 })",
		"process.on('exit', () => {}); process.on('exit', () => { throw new Error('late') })", "process.on('exit', () => process.exit(6))", "throw new Error('boo')", "Promise.reject(new Error('boo'))",
		"process.on('exit', () => { process.exitCode = 0 }); throw new Error('boo')", "process.on('exit', () => { process.exitCode = 0 }); Promise.reject(new Error('boo'))",
		"process.on('uncaughtException', (e) => console.log(e.message)); throw new Error('caught')", "setTimeout(() => console.log('later'), 20)",
		"process.on('beforeExit', () => { process.on('exit', () => console.log('last')) })", "process.on('exit', () => process.on('exit', () => console.log('never')))",
		"const { emit } = process; process.emit = function (name, ...rest) { console.log(name); return emit.call(this, name, ...rest) }",
		"console.log(process.emit === require('events').prototype.emit, 'emit' in process, Object.keys(process).includes('emit'))",
		"for (let i = 0; i < 10; i++) process.on('exit', () => {})", "process.on('SIGTERM', () => { console.log('term'); clearInterval(i) }); const i = setInterval(() => {}, 1000); process.kill(process.pid, 'SIGTERM')",
		"new (require('worker_threads').Worker)('process.on(\"exit\", () => console.log(\"w\"))', { eval: true })", "require('child_process').spawn('echo', ['child'], { stdio: 'inherit' })",
		"const { PassThrough } = require('stream'); new PassThrough().pipe(process.stdout)", "import('fs').then(() => console.log('imported'))",
		"console.log(process.getActiveResourcesInfo()); console.log(require('fs').readdirSync('/proc/self/fd').length)", "console.error('err'); console.log('out')",
	} {
		if i%tier.Pick(3, 1) != 0 {
			continue
		}
		box.write("main.js", text)
		cold := box.exec(e, "")
		box.alike(text, cold, box.awaitWarm(warmed(e), ""))
	}
}

// A program that a parked interpreter cannot run starts cold.
func TestPlainWarmRunsCold(t *testing.T) {
	spec := nativeSpec()
	spec.Limits.Pids = 200
	box := newWarmBox(t, openNative(t, t.TempDir()), spec)
	box.write("main.py", "import os, sys, random\nprint(os.getpid(), random.random(), hash('x'))")
	e := warmed(program("python3", "main.py"), "random")
	seen := map[string]bool{}
	hash := ""
	for range 3 {
		var pid, chance, h string
		if _, err := fmt.Sscan(box.awaitWarm(e, "").out, &pid, &chance, &h); err != nil || seen[pid] || seen[chance] {
			t.Error(pid, chance, err)
		}
		if seen[pid], seen[chance] = true, true; hash != "" && h != hash {
			t.Errorf("its hash seed is that of another interpreter: %s, %s", h, hash)
		}
		hash = h
	}
	with := func(change func(*wire.Exec)) wire.Exec {
		x := e
		change(&x)
		return x
	}
	for name, x := range map[string]wire.Exec{
		"flags":       with(func(x *wire.Exec) { x.Argv = []string{"python3", "-I", "main.py"} }),
		"module":      with(func(x *wire.Exec) { x.Argv = []string{"python3", "-m", "main"} }),
		"hash seed":   with(func(x *wire.Exec) { x.Env = append([]string{"PYTHONHASHSEED=3"}, x.Env...) }),
		"variable":    with(func(x *wire.Exec) { x.Env = append([]string{"OTHER=1"}, x.Env...) }),
		"program":     with(func(x *wire.Exec) { x.Argv = []string{"/usr/bin/python3", "main.py"} }),
		"argument":    with(func(x *wire.Exec) { x.Argv = []string{"python3", "main.py", "1"} }),
		"not asked":   with(func(x *wire.Exec) { x.Warm = nil }),
		"terminal":    with(func(x *wire.Exec) { x.PTY = &wire.Size{Cols: 80, Rows: 24} }),
		"module list": with(func(x *wire.Exec) { x.Warm = &wire.Warm{} }),
		"user":        with(func(x *wire.Exec) { x.UID, x.GID = 1001, 1001 }),
	} {
		if got := box.exec(x, ""); got.warm || got.code != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// The conditions of a start have changed: no interpreter that was parked before runs the program.
	box.awaitWarm(e, "")
	site := box.exec(program("python3", "-c", "import site\nprint(site.USER_SITE, end='')"), "").out
	box.write(strings.TrimPrefix(site, "/workspace/")+"/new.pth", "/workspace/added\n")
	box.write("main.py", "import sys\nprint('/workspace/added' in sys.path, flush=True)")
	box.write("added/x.py", "")
	if got := box.exec(e, ""); got.out != "True\n" { // warm if another key has displaced the old interpreter
		t.Errorf("with another search path: %+v", got)
	}
	if got := box.awaitWarm(e, ""); got.out != "True\n" {
		t.Errorf("with another search path, warm: %+v", got)
	}
	// A preloaded module is not touched at the end, unless the program has changed it.
	box.write("main.py", "import json\nclass A:\n    def __del__(self): print('end')\njson.a = A()")
	if got := box.awaitWarm(warmed(program("python3", "main.py"), "json"), ""); got.out != "end\n" {
		t.Errorf("in a preloaded module: %+v", got)
	}
	// A process with a thread cannot be forked: an interpreter whose module starts one is used once.
	box.write("main.py", "import threading\nprint(threading.active_count())")
	box.write(strings.TrimPrefix(site, "/workspace/")+"/threads.py", "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n")
	x := warmed(program("python3", "main.py"), "threads")
	for range 2 {
		if got := box.awaitWarm(x, ""); got.out != "2\n" {
			t.Errorf("with a thread: %+v", got)
		}
	}
	// A file next to the program has precedence over a preloaded module. A folder without code does not.
	box.write("main.py", "import json\nprint(json.__file__[:10])")
	box.write("json/data.txt", "")
	if got := box.awaitWarm(warmed(program("python3", "main.py"), "json"), ""); got.out == "/workspace\n" {
		t.Errorf("next to a folder: %+v", got)
	}
	box.write("json.py", "")
	for range 2 {
		if got := box.exec(warmed(program("python3", "main.py"), "json"), ""); got.warm || got.out != "/workspace\n" {
			t.Errorf("next to a file: %+v", got)
		}
	}
}

// A command that is ended, or that leaves processes behind, behaves the same with a forked interpreter.
func TestPlainWarmSurvivors(t *testing.T) {
	spec := nativeSpec()
	spec.Limits.Pids = 200
	box := newWarmBox(t, openNative(t, t.TempDir()), spec)
	box.write("main.py", "")
	e := warmed(program("python3", "main.py"))
	box.awaitWarm(e, "")
	box.write("main.py", `import os, time
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('pids', 'a').write(f'{os.getpid()}\n')
        os.write(w, b'.')
        time.sleep(600)
    os._exit(0)
os.read(r, 1)
print('up', flush=True)
os.wait()
if os.path.exists('stay'): time.sleep(600)
`)
	survivors := func() string { // a zombie has no command line
		got := box.exec(program("sh", "-c", `n=0; for p in $(cat pids); do [ -z "$(tr -d '\0' </proc/$p/cmdline)" ] || n=$((n+1)); done 2>/dev/null; echo $n`), "")
		return strings.TrimSpace(got.out)
	}
	if got := box.exec(e, ""); survivors() != "1" {
		t.Errorf("%+v, %s survivors instead of one", got, survivors())
	}
	once := e
	once.KillAll = true // no process survives
	if got := box.awaitWarm(once, ""); got.out != "up\n" || survivors() != "1" {
		t.Errorf("%+v, %s survivors instead of one", got, survivors())
	}
	box.write("stay", "")
	e.TimeoutMS, e.GraceMS = 300, 100
	if got := box.awaitWarm(e, ""); got.cause != wire.CauseTimeout || survivors() != "1" {
		t.Errorf("%+v, %s survivors instead of one", got, survivors())
	}
	e.TimeoutMS, e.CPUTimeMS = 60_000, 200
	box.write("main.py", "while True: pass")
	if got := box.awaitWarm(e, ""); got.cause != wire.CauseCPUTime || got.usage.UserMicros < 100_000 {
		t.Errorf("%+v", got)
	}
}

// A preloaded numpy multiplies in forked processes, which have their own threads, and its random numbers differ.
func TestPlainWarmNumpy(t *testing.T) {
	tier.Soak(t)
	spec := nativeSpec()
	spec.Limits.Pids = 200
	box := newWarmBox(t, openNative(t, t.TempDir()), spec)
	box.write("main.py", "import numpy\na = numpy.ones((700, 700))\nprint((a @ a).sum(), numpy.random.rand())")
	e := program("python3", "main.py")
	if got := box.exec(e, ""); got.code != 0 {
		need.Missing(t, "numpy: %s", got.err)
	}
	seen := map[string]bool{}
	for range 10 {
		got := box.awaitWarm(warmed(e, "numpy"), "")
		sum, chance, _ := strings.Cut(got.out, " ")
		if got.code != 0 || sum != "343000000.0" || seen[chance] {
			t.Errorf("%+v", got)
		}
		seen[chance] = true
	}
}

// BenchmarkWarm compares a one-line program with and without a parked interpreter, in a ready sandbox and in a session. The figure is
// the speedup.
func BenchmarkWarm(b *testing.B) {
	r := openNative(b, b.TempDir())
	p := prime(b, r)
	for name, c := range map[string]struct{ program, file, text, module string }{
		"python":  {"python3", "main.py", "print(1)", ""},
		"imports": {"python3", "main.py", "import json, asyncio, urllib.request, email, sqlite3\nprint(1)", "json asyncio urllib.request email sqlite3"},
		"pandas":  {"python3", "main.py", "import pandas\nprint(1)", "pandas"},
		"node":    {"node", "main.js", "console.log(1)", ""},
	} {
		e := program(c.program, c.file)
		spec := nativeSpec()
		spec.Limits.Pids = 200
		modules := strings.Fields(c.module)
		spec.Park = &runtime.Park{Argv: e.Argv, Env: e.Env, UID: e.UID, GID: e.GID, Rlimits: e.Rlimits, Preload: modules}
		if c.module == "pandas" {
			box := newWarmBox(b, r, spec)
			if got := box.exec(program("python3", "-c", "import pandas"), ""); got.code != 0 {
				b.Run(name, func(b *testing.B) { b.Skip("the host's python3 has no pandas: ", got.err) })
				continue
			}
		}
		b.Run("pool/"+name, func(b *testing.B) {
			var times [2][]time.Duration
			for b.Loop() {
				for i := range times {
					if !p.Await(b.Context(), spec) {
						b.Fatal("none is ready")
					}
					box := newWarmBox(b, p.Pool, spec)
					box.write(c.file, c.text)
					x := e
					if x.KillAll = true; i == 1 {
						x = warmed(x, modules...)
					}
					got := box.exec(x, "")
					if got.warm != (i == 1) || got.out != "1\n" {
						b.Fatalf("%+v", got)
					}
					times[i] = append(times[i], got.took)
					if err := box.box.Destroy(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			report(b, times)
		})
		b.Run("session/"+name, func(b *testing.B) {
			box := newWarmBox(b, r, spec)
			box.write(c.file, c.text)
			var times [2][]time.Duration
			for b.Loop() {
				times[0] = append(times[0], box.exec(e, "").took)
				times[1] = append(times[1], box.awaitWarm(warmed(e, modules...), "").took)
			}
			report(b, times)
		})
	}
}

func report(b *testing.B, times [2][]time.Duration) {
	for i, name := range []string{"cold", "warm"} {
		slices.Sort(times[i])
		b.ReportMetric(float64(times[i][len(times[i])/2].Microseconds())/1000, name+"-ms")
		b.ReportMetric(float64(times[i][0].Microseconds())/1000, name+"-least-ms")
	}
	b.ReportMetric(float64(times[0][len(times[0])/2])/float64(times[1][len(times[1])/2]), "cold/warm")
}
