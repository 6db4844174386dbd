//go:build linux

package guest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/leak"
	"github.com/belljar/belljar/test/nest"
	"github.com/belljar/belljar/test/sockdir"
)

// patience limits each wait of a test.
const patience = time.Minute

func TestMain(m *testing.M) {
	if config := os.Getenv("GUEST_TEST_INIT"); config != "" {
		os.Exit(beInit(config))
	}
	if os.Getenv("GUEST_TEST_HEADLESS") != "" {
		beHeadless()
	}
	if how := os.Getenv("GUEST_TEST_NETLINK"); how != "" {
		beConfined(how)
	}
	os.Exit(nest.Main(func() int { return leak.Main(m) }))
}

// host is the other side of an agent, speaking the protocol by hand.
type host struct {
	testing.TB
	dir    string
	agent  *guest.Agent
	socket string
}

// begin starts an agent in this process, with its own workspace.
func begin(t *testing.T, cfg guest.Config) *host {
	t.Helper()
	if cfg.Workspace == "" {
		cfg.Workspace = t.TempDir()
	}
	a, err := guest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &host{TB: t, dir: cfg.Workspace, agent: a, socket: serve(t, a)}
}

// serve makes an agent listen on a socket until the test ends.
func serve(t testing.TB, a *guest.Agent) string {
	t.Helper()
	socket := filepath.Join(sockdir.New(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- a.Serve(l) }()
	t.Cleanup(func() {
		a.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return socket
}

// line is one stream.
type line struct {
	h    *host
	conn net.Conn
	r    *wire.Reader
	w    *wire.Writer
}

func (h *host) dial() *line {
	h.Helper()
	conn, err := net.Dial("unix", h.socket)
	if err != nil {
		h.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { conn.Close() })
	return &line{h: h, conn: conn, r: wire.NewReader(conn), w: wire.NewWriter(conn)}
}

// ask opens a stream with a request and reads the agent's hello.
func (h *host) ask(req wire.Request) *line {
	h.Helper()
	l := h.dial()
	l.json(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version})
	l.json(wire.KindRequest, req)
	return l
}

func (l *line) json(k wire.Kind, v any) {
	l.h.Helper()
	if err := l.w.JSON(k, v); err != nil {
		l.h.Fatal(err)
	}
}

// next returns the next frame other than a hello.
func (l *line) next() wire.Frame {
	l.h.Helper()
	for {
		f, err := l.r.Read()
		if err != nil {
			l.h.Fatalf("read: %v", err)
		}
		if f.Kind != wire.KindHello {
			return f
		}
	}
}

func (l *line) reply() wire.Reply {
	l.h.Helper()
	return l.decode(l.next())
}

func (l *line) decode(f wire.Frame) wire.Reply {
	l.h.Helper()
	var r wire.Reply
	if f.Kind != wire.KindReply {
		l.h.Fatalf("frame of kind %d instead of a reply", f.Kind)
	}
	if err := f.JSON(&r); err != nil {
		l.h.Fatal(err)
	}
	return r
}

func (l *line) started() wire.Started {
	l.h.Helper()
	r := l.reply()
	if r.Started == nil {
		l.h.Fatalf("no start: %+v", r.Error)
	}
	return *r.Started
}

// stdinLimit returns the next stdin limit; it skips earlier output, such as a shell's message.
func (l *line) stdinLimit() int64 {
	l.h.Helper()
	for {
		f := l.next()
		if f.Kind == wire.KindOutput {
			continue
		}
		r := l.decode(f)
		if r.StdinLimit == nil {
			l.h.Fatalf("no stdin limit: %+v", r)
		}
		return *r.StdinLimit
	}
}

// follow collects output until the function until returns true, or the exit. It acknowledges along the way.
func (l *line) follow(until func(out string) bool) (out, errs string, exit *wire.Exit) {
	l.h.Helper()
	position := int64(-1)
	var stdout, stderr []byte
	text := func() (string, string) { return string(stdout), string(stderr) }
	for {
		f := l.next()
		if f.Kind != wire.KindOutput {
			r := l.decode(f)
			if r.Error != nil {
				l.h.Fatalf("error: %v", r.Error)
			}
			if r.Exit != nil {
				out, errs = text()
				return out, errs, r.Exit
			}
			continue
		}
		at, stream, data, err := f.Output()
		if err != nil {
			l.h.Fatal(err)
		}
		if position >= 0 && at != position {
			l.h.Fatalf("output at %d instead of %d", at, position)
		}
		position = at + int64(len(data))
		if stream == wire.Stdout {
			stdout = append(stdout, data...)
		} else {
			stderr = append(stderr, data...)
		}
		l.json(wire.KindControl, wire.Control{Ack: &position})
		if until != nil && until(string(stdout)) {
			out, errs = text()
			return out, errs, nil
		}
	}
}

func (l *line) exit() wire.Exit {
	l.h.Helper()
	_, _, exit := l.follow(nil)
	return *exit
}

func (l *line) await(word string) string {
	l.h.Helper()
	out, errs, exit := l.follow(func(out string) bool { return strings.Contains(out, word) })
	if exit != nil {
		l.h.Fatalf("ended with %+v before %q; printed %q and %q", exit, word, out, errs)
	}
	return out
}

// failure returns the error that the stream must end with.
func (l *line) failure(want wire.Code) *wire.Error {
	l.h.Helper()
	r := l.reply()
	if r.Error == nil || r.Error.Code != want {
		l.h.Fatalf("got %+v (%+v), want code %s", r, r.Error, want)
	}
	return r.Error
}

func (h *host) sh(id, script string) wire.Exec {
	return wire.Exec{
		ID: id, Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, UID: os.Getuid(), GID: os.Getgid(),
	}
}

func (h *host) exec(e wire.Exec) *line {
	h.Helper()
	return h.ask(wire.Request{Op: wire.OpExec, Exec: &e})
}

// gone fails if the process still exists.
func (h *host) gone(pid int) {
	h.Helper()
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		h.Errorf("process %d still exists (%v)", pid, err)
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestHello(t *testing.T) {
	h := begin(t, guest.Config{Build: "b1"})
	for version, ok := range map[int]bool{wire.Version: true, wire.Version - 1: true, wire.Version + 1: false, -5: false} {
		l := h.dial()
		l.json(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: version})
		l.json(wire.KindRequest, wire.Request{Op: wire.OpPing})
		f, err := l.r.Read()
		if err != nil {
			t.Fatal(err)
		}
		var hello wire.Hello
		if err := f.JSON(&hello); f.Kind != wire.KindHello || err != nil {
			t.Fatalf("kind %d, %v", f.Kind, err)
		}
		if hello.Build != "b1" || len(hello.BootID) != 32 || hello.Protocol != wire.Protocol {
			t.Errorf("hello %+v", hello)
		}
		if !ok {
			l.failure(wire.CodeVersion)
			continue
		}
		if info := l.reply().Info; info == nil || info.BootID != hello.BootID || info.Pid != os.Getpid() {
			t.Errorf("info %+v", info)
		}
	}
}

func TestMalformedStreamsEndAlone(t *testing.T) {
	h := begin(t, guest.Config{})
	other := h.exec(wire.Exec{ID: "cat", Argv: []string{"/bin/cat"}, UID: os.Getuid(), GID: os.Getgid(), Stdin: true})
	other.started()
	for name, send := range map[string]string{
		"unknown kind": "\xff\x00\x00\x00\x00",
		"oversized":    "\x01\xff\xff\xff\xff",
		"no json":      "\x01\x00\x00\x00\x01x",
	} {
		l := h.dial()
		if _, err := io.WriteString(l.conn, send); err != nil {
			t.Fatal(err)
		}
		l.failure(wire.CodeProtocol)
		if _, err := l.r.Read(); err == nil {
			t.Errorf("%s: the stream continues", name)
		}
	}
	for op, code := range map[wire.Op]wire.Code{
		"dance": wire.CodeProtocol, wire.OpRelay: wire.CodeUnsupported, wire.OpConnect: wire.CodeUnsupported,
		wire.OpExec: wire.CodeInvalid, wire.OpSignal: wire.CodeInvalid, wire.OpStat: wire.CodeInvalid,
		wire.OpAttach: wire.CodeNotFound,
	} {
		h.ask(wire.Request{Op: op}).failure(code)
	}
	if err := other.w.Data([]byte("alive\n")); err != nil {
		t.Fatal(err)
	}
	other.await("alive")
}

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]guest.Config{
		"filter":    {Workspace: t.TempDir(), ExecFilter: make([]byte, 7)},
		"lease":     {Workspace: t.TempDir(), LeaseMS: -1},
		"workspace": {Workspace: filepath.Join(t.TempDir(), "none")},
	} {
		if a, err := guest.New(cfg); err == nil {
			a.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestLease(t *testing.T) {
	h := begin(t, guest.Config{})
	l := h.exec(h.sh("a", "trap '' TERM; echo $$; while :; do sleep 1000; done"))
	l.started()
	pid := number(t, l.await("\n"))
	if !h.ask(wire.Request{Op: wire.OpLease, Lease: 2000}).reply().Done {
		t.Fatal("not done")
	}
	select {
	case <-h.agent.Done():
	case <-time.After(patience):
		t.Fatal("the agent outlives its lease")
	}
	h.gone(pid)
}

func TestLifeline(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	h := begin(t, guest.Config{LifelineFD: p[0]})
	l := h.exec(h.sh("a", "echo $$; exec sleep 1000"))
	l.started()
	pid := number(t, l.await("\n"))
	unix.Close(p[1])
	select {
	case <-h.agent.Done():
	case <-time.After(patience):
		t.Fatal("the agent outlives its creator")
	}
	h.gone(pid)
}

func TestCloseTwiceAndWithoutServe(t *testing.T) {
	a, err := guest.New(guest.Config{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	a.Close()
	<-a.Done()
}

// FuzzConversation sends an agent arbitrary bytes. The corpus holds only requests that cannot start programs or leave the
// workspace; argv is rewritten to a missing program.
func FuzzConversation(f *testing.F) {
	seed := func(reqs ...any) []byte {
		var b bytes.Buffer
		w := wire.NewWriter(&b)
		_ = w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version})
		for _, r := range reqs {
			_ = w.JSON(wire.KindRequest, r)
		}
		_ = w.Data([]byte("data"))
		_ = w.EOF()
		return b.Bytes()
	}
	for _, op := range []wire.Op{wire.OpPing, wire.OpList, wire.OpForget, wire.OpAttach} {
		f.Add(seed(wire.Request{Op: op, ID: "x"}))
	}
	for _, op := range []wire.Op{
		wire.OpStat, wire.OpRead, wire.OpWrite, wire.OpReadDir, wire.OpWalk, wire.OpMkdir, wire.OpRename, wire.OpDelete,
		wire.OpTarIn, wire.OpTarOut, wire.OpMerge, wire.OpMergeNew, wire.OpScan, wire.OpSpace,
	} {
		f.Add(seed(wire.Request{Op: op, File: &wire.FileRequest{Path: "a/../b", To: "/workspace/c", Parents: true}}))
	}
	a, err := guest.New(guest.Config{Workspace: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { a.Close() })
	f.Fuzz(func(t *testing.T, in []byte) {
		if startsPrograms(in) {
			t.Skip("would start a program or change the lease")
		}
		client, server := net.Pipe()
		handled := make(chan struct{})
		go func() {
			defer close(handled)
			a.Handle(server)
		}()
		go io.Copy(io.Discard, client)
		_ = client.SetWriteDeadline(time.Now().Add(patience))
		_, _ = client.Write(in)
		client.Close()
		<-handled
	})
}

// startsPrograms recognises requests that a fuzzer must not send.
func startsPrograms(in []byte) bool {
	r := wire.NewReader(bytes.NewReader(in))
	for {
		f, err := r.Read()
		if err != nil {
			return false
		}
		var req wire.Request
		if f.Kind == wire.KindRequest && json.Unmarshal(f.Payload, &req) == nil &&
			(req.Exec != nil || req.Op == wire.OpLease || req.File != nil && (req.File.UID != 0 || req.File.GID != 0)) {
			return true
		}
	}
}

func TestManyStreamsAreBounded(t *testing.T) {
	a, err := guest.New(guest.Config{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var handled sync.WaitGroup
	defer handled.Wait()
	defer a.Close()
	closed := make(chan error, 2100)
	for range cap(closed) {
		client, server := net.Pipe()
		defer client.Close()
		handled.Go(func() { a.Handle(server) })
		go func() {
			_, err := client.Read(make([]byte, 1))
			closed <- err
		}()
	}
	select { // those within the limit wait for our hello
	case err := <-closed:
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("2100 streams at once")
	}
}
