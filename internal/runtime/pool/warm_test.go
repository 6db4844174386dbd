//go:build linux

package pool_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/pool"
)

// sandboxEnv is an environment as the service gives it to a command.
var sandboxEnv = []string{
	"HOME=/workspace", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "PWD=/workspace", "TERM=dumb", "TMPDIR=/tmp", "USER=sandbox",
}

// warmBox is a sandbox in which programs run warm and cold.
type warmBox struct {
	testing.TB
	box   runtime.Sandbox
	agent *agent.Client
	runs  int
}

func newWarmBox(t testing.TB, r runtime.Runtime, spec runtime.Spec) *warmBox {
	t.Helper()
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

// write writes a file of the workspace.
func (b *warmBox) write(path, text string) {
	b.Helper()
	if _, err := b.agent.WriteFile(b.Context(), wire.FileRequest{Path: path, Parents: true, UID: 1000, GID: 1000}, strings.NewReader(text)); err != nil {
		b.Fatal(err)
	}
}

// said is what a program printed, and how it ended.
type said struct {
	out, err string
	code     int
	signal   int
	cause    wire.Cause
	warm     bool
	took     time.Duration
	usage    wire.Usage
}

func (b *warmBox) exec(e wire.Exec, stdin string) (s said) {
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
	exit, err := p.Output(b.Context(), func(_ int64, stream wire.Stream, text []byte) error {
		if stream == wire.Stderr {
			errs.Write(text)
		} else {
			out.Write(text)
		}
		return nil
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

// program is a command of a language.
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

// awaitWarm runs a program until its interpreter had waited: the one of the first run is started when that has ended.
func (b *warmBox) awaitWarm(e wire.Exec, stdin string) said {
	b.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if s := b.exec(e, stdin); s.warm {
			return s
		} else if time.Now().After(until) {
			b.Fatalf("it never runs warm: %+v", s)
		}
	}
}

var changing = regexp.MustCompile(`pid \d+|0x[0-9a-f]+`)

// alike fails if a program does something else warm than cold.
func (b *warmBox) alike(name string, cold, warm said) {
	b.Helper()
	for _, s := range []*said{&cold, &warm} {
		s.took, s.usage, s.warm = 0, wire.Usage{}, false
		s.out, s.err = changing.ReplaceAllString(s.out, "…"), changing.ReplaceAllString(s.err, "…")
	}
	if cold != warm {
		b.Errorf("%s:\ncold %+v\nwarm %+v", name, cold, warm)
	}
}

// A program in a session does the same with an interpreter that had waited as without one.
func TestWarmIsAsCold(t *testing.T) {
	spec := nativeSpec()
	spec.Limits.Pids = 200
	box := newWarmBox(t, openNative(t, t.TempDir()), spec)
	info, err := box.agent.Ping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log("each command has a cgroup:", info.Cgroup)
	programs := warmPrograms()
	if len(programs) < 300 {
		t.Errorf("only %d programs", len(programs))
	}
	box.write("sub/inner.py", "where = __name__\n")
	box.write("main.py", "")
	e := program("python3", "main.py")
	box.awaitWarm(warmed(e), "")
	misses := 0
	var coldTime, warmTime time.Duration
	for i, p := range programs {
		if !everything() && i%5 != 0 {
			continue
		}
		box.write("main.py", p.text)
		e := program("python3", "main.py")
		e.Stdin, e.TimeoutMS = p.stdin != "", max(p.timeout, 60_000)
		if p.timeout > 0 {
			e.TimeoutMS = p.timeout
		}
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

// everything has the whole of a long test run.
func everything() bool { return os.Getenv("BELLJAR_TEST_WARM") != "" }

var _ = maps.Clone[map[string]int]
var _ = pool.Options{}
var _ = belljar.NewID
