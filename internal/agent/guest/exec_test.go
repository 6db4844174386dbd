//go:build linux

package guest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/need"
)

func TestExec(t *testing.T) {
	h := begin(t, guest.Config{})
	e := h.sh("a", "echo out; echo err >&2; pwd; umask; env; ulimit -n; cat; ls -l /proc/self/fd | wc -l; exit 7")
	e.Env = append(e.Env, "X=1")
	e.Rlimits = map[string]uint64{"nofile": 77, "core": 0}
	l := h.exec(e)
	if st := l.started(); st.Attached || st.Pid <= 0 || st.From != 0 || st.StdinLimit != 0 {
		t.Errorf("started %+v", st)
	}
	out, errs, exit := l.follow(nil)
	if exit.Code != 7 || exit.Cause != wire.CauseExited || exit.WallMS <= 0 || exit.Usage.MaxRSS == 0 || exit.Usage.Source != "rusage" {
		t.Errorf("exit %+v", exit)
	}
	if errs != "err\n" || exit.Position != int64(len(out)+len(errs)) {
		t.Errorf("stderr %q, position %d", errs, exit.Position)
	}
	if !strings.HasPrefix(out, "out\n"+h.dir+"\n0022\n") || !strings.Contains(out, "\nX=1\n") || !strings.Contains(out, "\n77\n") {
		t.Errorf("stdout %q", out)
	}
	if strings.Contains(out, "HOME=") {
		t.Error("the agent's environment got in")
	}
	if !strings.HasSuffix(out, "\n5\n") { // total, 0, 1, 2 and the descriptor of ls
		t.Errorf("descriptors leaked: %q", out)
	}
}

func TestExecSignalled(t *testing.T) {
	h := begin(t, guest.Config{})
	l := h.exec(h.sh("a", "kill -KILL $$"))
	l.started()
	if exit := l.exit(); exit.Code != -1 || exit.Signal != 9 || exit.Cause != wire.CauseExited {
		t.Errorf("exit %+v", exit)
	}
}

func TestExecFailures(t *testing.T) {
	h := begin(t, guest.Config{})
	plain := filepath.Join(h.dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*wire.Exec)
		errno  unix.Errno
		step   string
	}{
		"no such name":    {func(e *wire.Exec) { e.Argv[0] = "nosuchprogram" }, unix.ENOENT, "lookup"},
		"no such path":    {func(e *wire.Exec) { e.Argv[0] = "/no/such" }, unix.ENOENT, "exec"},
		"not executable":  {func(e *wire.Exec) { e.Argv[0] = plain }, unix.EACCES, "exec"},
		"in PATH, not x":  {func(e *wire.Exec) { e.Argv[0], e.Env = "plain", []string{"PATH=."} }, unix.EACCES, "lookup"},
		"no such folder":  {func(e *wire.Exec) { e.Cwd = "nowhere" }, unix.ENOENT, "chdir"},
		"argument length": {func(e *wire.Exec) { e.Argv[1] = strings.Repeat("x", 1<<20) }, unix.E2BIG, "exec"},
	} {
		e := h.sh("x", "true")
		c.change(&e)
		if fault := h.exec(e).failure(wire.CodeExecFailed); fault.Errno != int(c.errno) || fault.Step != c.step {
			t.Errorf("%s: %+v", name, fault)
		}
	}
	for name, change := range map[string]func(*wire.Exec){
		"no id":    func(e *wire.Exec) { e.ID = "" },
		"no argv":  func(e *wire.Exec) { e.Argv = nil },
		"NUL":      func(e *wire.Exec) { e.Argv[1] = "a\x00b" },
		"user":     func(e *wire.Exec) { e.UID = -1 },
		"rlimit":   func(e *wire.Exec) { e.Rlimits = map[string]uint64{"love": 1} },
		"negative": func(e *wire.Exec) { e.TimeoutMS = -1 },
	} {
		e := h.sh("x", "true")
		change(&e)
		if fault := h.exec(e).failure(wire.CodeInvalid); fault.Message == "" {
			t.Errorf("%s: %+v", name, fault)
		}
	}
	if r := h.ask(wire.Request{Op: wire.OpList}).reply(); len(r.Execs) != 0 {
		t.Errorf("failed starts are listed: %+v", r.Execs)
	}
}

func TestPathIsSearchedFromCwd(t *testing.T) {
	h := begin(t, guest.Config{})
	if err := os.MkdirAll(filepath.Join(h.dir, "d/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "d/bin/prog"), []byte("#!/bin/sh\necho found\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	e := h.sh("a", "")
	e.Argv, e.Env, e.Cwd = []string{"prog"}, []string{"PATH=/nowhere:bin"}, "/workspace/d"
	l := h.exec(e)
	l.started()
	if out, _, exit := l.follow(nil); out != "found\n" || exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
}

func TestSameIDAttaches(t *testing.T) {
	h := begin(t, guest.Config{})
	e := h.sh("a", "echo $$ >> count; echo hello; read x; echo $x")
	e.Stdin = true
	first := h.exec(e)
	first.started()
	second := h.exec(e)
	if st := second.started(); !st.Attached || st.From != 0 || st.StdinLimit != wire.StdinWindow {
		t.Errorf("started %+v", st)
	}
	for { // the older one is closed
		if _, err := first.r.Read(); err != nil {
			break
		}
	}
	second.await("hello")
	if err := second.w.Data([]byte("bye\n")); err != nil {
		t.Fatal(err)
	}
	second.await("bye")
	second.exit()

	// Acknowledged output is gone; the rest and the outcome can be read again.
	third := h.ask(wire.Request{Op: wire.OpAttach, ID: "a"})
	// The last ack may have been in transit when the third stream took over.
	if st := third.started(); st.From != 10 && st.From != 6 || st.Stdin != 4 {
		t.Errorf("started %+v", st)
	}
	if exit := third.exit(); exit.Code != 0 || exit.Position != 10 {
		t.Errorf("exit %+v", exit)
	}
	h.ask(wire.Request{Op: wire.OpAttach, ID: "a", From: 11}).failure(wire.CodeInvalid)
	if count, _ := os.ReadFile(filepath.Join(h.dir, "count")); bytes.Count(count, []byte("\n")) != 1 {
		t.Errorf("started %q", count)
	}
	if r := h.ask(wire.Request{Op: wire.OpList}).reply(); len(r.Execs) != 1 || r.Execs[0].Running || r.Execs[0].Exit == nil {
		t.Errorf("list %+v", r.Execs)
	}
	for range 2 {
		if !h.ask(wire.Request{Op: wire.OpForget, ID: "a"}).reply().Done {
			t.Error("not forgotten")
		}
	}
	h.ask(wire.Request{Op: wire.OpAttach, ID: "a"}).failure(wire.CodeNotFound)
}

// The program blocks when 8 MiB are unacknowledged, and a host that attaches again receives every byte.
func TestPlainSpool(t *testing.T) {
	h := begin(t, guest.Config{})
	const size = 12 << 20
	l := h.exec(h.sh("a", "head -c 12582912 /dev/zero; echo 1 > done"))
	l.started()
	got := int64(0)
	for got < wire.SpoolSize-(256<<10) {
		f := l.next()
		_, _, data, err := f.Output()
		if err != nil {
			t.Fatal(err)
		}
		got += int64(len(data))
	}
	l.conn.Close()
	if _, err := os.Stat(filepath.Join(h.dir, "done")); err == nil {
		t.Error("the program did not block")
	}
	info := h.ask(wire.Request{Op: wire.OpList}).reply().Execs[0]
	if info.Position > wire.SpoolSize || !info.Running {
		t.Errorf("spooled %d", info.Position)
	}
	h.ask(wire.Request{Op: wire.OpForget, ID: "a"}).failure(wire.CodeInvalid)
	l = h.ask(wire.Request{Op: wire.OpAttach, ID: "a", From: 1000})
	if st := l.started(); st.From != 1000 {
		t.Errorf("from %d", st.From)
	}
	out, _, exit := l.follow(nil)
	if len(out) != size-1000 || exit.Position != size || exit.Code != 0 {
		t.Errorf("%d bytes, %+v", len(out), exit)
	}
}

func TestOutputLimit(t *testing.T) {
	h := begin(t, guest.Config{})
	e := h.sh("a", "printf 0123456789; head -c 20000000 /dev/zero")
	e.OutputLimit = 7
	l := h.exec(e)
	l.started()
	if out, _, exit := l.follow(nil); out != "0123456" || exit.Dropped != 20000003 || exit.Position != 7 {
		t.Errorf("%q, %+v", out, exit)
	}
}

func TestAckBeyondOutputIsRefused(t *testing.T) {
	h := begin(t, guest.Config{})
	l := h.exec(h.sh("a", "exec sleep 1000"))
	l.started()
	ack := int64(1)
	l.json(wire.KindControl, wire.Control{Ack: &ack})
	l.failure(wire.CodeProtocol)
}

// Bytes beyond the window stay at the host until the program reads.
func TestStdinIsBounded(t *testing.T) {
	h := begin(t, guest.Config{})
	e := h.sh("a", "echo ready; read x < gate; cat | wc -c")
	e.Stdin = true
	gate := filepath.Join(h.dir, "gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	l := h.exec(e)
	limit := l.started().StdinLimit
	l.await("ready")
	const size = 1 << 20
	sent := int64(0)
	first := true
	for sent < size {
		for sent < limit && sent < size {
			n := min(limit-sent, 10000, size-sent)
			if err := l.w.Data(make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			sent += n
		}
		if first && sent >= wire.StdinWindow {
			first = false
			if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
				t.Fatal(err)
			}
		}
		if sent < size {
			limit = l.stdinLimit()
		}
	}
	if err := l.w.EOF(); err != nil {
		t.Fatal(err)
	}
	if out, _, _ := l.follow(nil); number(t, out) != size {
		t.Errorf("cat got %s of %d bytes", out, size)
	}
}

func TestStdinBeyondItsLimit(t *testing.T) {
	h := begin(t, guest.Config{})
	e := h.sh("a", "exec sleep 1000")
	l := h.exec(e)
	l.started()
	if err := l.w.Data([]byte("x")); err != nil {
		t.Fatal(err)
	}
	l.failure(wire.CodeProtocol)
	e.ID, e.Stdin = "b", true
	l = h.exec(e)
	l.started()
	for range 5 { // a pipe takes 64 KiB, and so does the window
		if err := l.w.Data(make([]byte, 60<<10)); err != nil {
			break
		}
	}
	for {
		r := l.reply()
		if r.StdinLimit != nil {
			continue
		}
		if r.Error == nil || r.Error.Code != wire.CodeProtocol {
			t.Errorf("%+v", r)
		}
		return
	}
}

func TestClosedStdinIsDropped(t *testing.T) {
	h := begin(t, guest.Config{})
	e := h.sh("a", "exec 0<&-; echo closed; exec sleep 1000")
	e.Stdin = true
	l := h.exec(e)
	limit := l.started().StdinLimit
	l.await("closed")
	for sent := int64(0); sent < 300<<10; {
		n := limit - sent
		if err := l.w.Data(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		sent += n
		limit = l.stdinLimit()
	}
}

// Another user's program can open its standard streams by name, because it owns them.
func TestOtherUser(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("", "guest") // accessible to every user, unlike the test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	h := begin(t, guest.Config{Workspace: dir})
	e := h.sh("a", "id -u; id -g; id -G; echo again > /dev/stdout; echo errors > /dev/stderr; cat /etc/shadow; touch mine; grep NoNewPrivs /proc/self/status; cat /proc/self/oom_score_adj")
	e.UID, e.GID = 4321, 5432
	l := h.exec(e)
	l.started()
	out, errs, _ := l.follow(nil)
	if !strings.HasPrefix(out, "4321\n5432\n5432\nagain\nNoNewPrivs:\t1\n") || !strings.HasPrefix(errs, "errors\n") || !strings.Contains(errs, "denied") {
		t.Errorf("%q, %q", out, errs)
	}
	if score := number(t, out[strings.LastIndex(strings.TrimSpace(out), "\n"):]); score < 500 {
		t.Errorf("oom score %d", score)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "mine"), &st); err != nil || st.Uid != 4321 {
		t.Errorf("%v, uid %d", err, st.Uid)
	}
}

func TestExecFilter(t *testing.T) {
	// ld [nr]; jeq mkdir|mkdirat → errno EDOM; allow
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_MKDIRAT},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EDOM)},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: sysMkdir},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EDOM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	var raw []byte
	for _, c := range code {
		raw = append(raw, byte(c.Code), byte(c.Code>>8), c.Jt, c.Jf, byte(c.K), byte(c.K>>8), byte(c.K>>16), byte(c.K>>24))
	}
	h := begin(t, guest.Config{ExecFilter: raw})
	l := h.exec(h.sh("a", "mkdir x"))
	l.started()
	if _, errs, exit := l.follow(nil); exit.Code == 0 || !strings.Contains(errs, "argument out of domain") {
		t.Errorf("%q %+v", errs, exit)
	}
}

func TestTerminal(t *testing.T) {
	h := begin(t, guest.Config{})
	e := h.sh("a", "tty; stty size; cat; echo over")
	e.PTY = &wire.Size{Cols: 91, Rows: 27}
	l := h.exec(e)
	l.started()
	l.await("27 91\r\n")
	if err := l.w.Data([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	l.await("hello\r\nhello\r\n")
	if err := l.w.EOF(); err != nil {
		t.Fatal(err)
	}
	if out, _, exit := l.follow(nil); !strings.Contains(out, "over\r\n") || exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
}

// A host finds a terminal by its note, with its size. While a host is attached, the terminal buffers less output.
func TestTerminalIsListed(t *testing.T) {
	h := begin(t, guest.Config{})
	e := h.sh("a", "stty -opost; head -c 4000000 /dev/zero; echo over")
	e.PTY, e.Note = &wire.Size{Cols: 91, Rows: 27}, "a note"
	l := h.exec(e)
	l.started()
	l.json(wire.KindControl, wire.Control{Resize: &wire.Size{Cols: 92, Rows: 28}})
	got := int64(0)
	for got < wire.TerminalSpool/2 {
		_, _, data, err := l.next().Output()
		if err != nil {
			t.Fatal(err)
		}
		got += int64(len(data))
	}
	info := h.ask(wire.Request{Op: wire.OpList}).reply().Execs[0]
	if info.Note != "a note" || info.PTY == nil || *info.PTY != (wire.Size{Cols: 92, Rows: 28}) {
		t.Errorf("%+v", info)
	}
	if info.Position > wire.TerminalSpool {
		t.Errorf("%d bytes wait for the host", info.Position)
	}
	l.conn.Close()
	for info.Running { // no host is attached: all of the output fits
		info = h.ask(wire.Request{Op: wire.OpList}).reply().Execs[0]
	}
	if info.Exit == nil || info.Exit.Code != 0 || info.Position < 4000000 {
		t.Errorf("%+v", info)
	}
	e = h.sh("b", "true")
	e.Note = strings.Repeat("x", wire.MaxNote+1)
	h.exec(e).failure(wire.CodeInvalid)
}

func BenchmarkTrue(b *testing.B) {
	a, err := guest.New(guest.Config{Workspace: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	t := &host{TB: b, agent: a}
	t.socket = serve(b, a)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := strconv.Itoa(i)
		l := t.exec(wire.Exec{ID: id, Argv: []string{"/bin/true"}, UID: os.Getuid(), GID: os.Getgid(), KillAll: true})
		for l.reply().Exit == nil {
		}
		l.conn.Close()
		l = t.ask(wire.Request{Op: wire.OpForget, ID: id})
		l.reply()
		l.conn.Close()
	}
}

func BenchmarkOutput(b *testing.B) {
	a, err := guest.New(guest.Config{Workspace: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	t := &host{TB: b, agent: a}
	t.socket = serve(b, a)
	l := t.exec(wire.Exec{ID: "z", Argv: []string{"/bin/cat", "/dev/zero"}, UID: os.Getuid(), GID: os.Getgid(), KillAll: true})
	_ = l.conn.SetDeadline(time.Time{})
	l.started()
	b.SetBytes(1 << 20)
	got, acked := int64(0), int64(0)
	for b.Loop() {
		for want := got + 1<<20; got < want; {
			f := l.next()
			if f.Kind != wire.KindOutput {
				b.Fatal("no output")
			}
			at, _, data, _ := f.Output()
			got = at + int64(len(data))
			if got-acked > 256<<10 {
				acked = got
				l.json(wire.KindControl, wire.Control{Ack: &acked})
			}
		}
	}
}
