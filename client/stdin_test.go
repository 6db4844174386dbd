//go:build linux

package client_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/stdin"
)

func TestStdin(t *testing.T) {
	c := newWorld(t, nil).client()
	req := shell("cat")
	req.Input = strings.NewReader("hällo \xff\x00 jar")
	if run, out := finish(t, c, req); out.StdoutEncoding != "base64" || run.Phase != belljar.PhaseCompleted {
		t.Errorf("%+v\n%+v", run, out)
	}
	req.Input = strings.NewReader("")
	if run, out := finish(t, c, req); out.Stdout != "" || run.Phase != belljar.PhaseCompleted {
		t.Errorf("%+v\n%+v", run, out)
	}
}

// TestStdinOpensAgain: a connection that breaks before it is open is retried.
func TestStdinOpensAgain(t *testing.T) {
	var asked atomic.Int32
	c := open(t, double(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/stream"):
			says(200, "application/json", `{"id":"r","phase":"running","interactive":true}`)(w, r)
		case asked.Add(1) == 1:
			hangUp(w, r)
		default:
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			<-conn.CloseRead(r.Context()).Done()
		}
	}))
	in, err := c.Runs().Stdin(within(t), "r")
	if err != nil || asked.Load() != 2 {
		t.Fatal(asked.Load(), err)
	}
	_ = in.Close()
}

// TestPlainLargeStdin: binary input larger than the server's default limit arrives complete.
func TestPlainLargeStdin(t *testing.T) {
	c := newWorld(t, nil).client()
	random := rand.NewChaCha8([32]byte{1})
	content := make([]byte, 6<<20)
	if _, err := random.Read(content); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	req := shell("sha256sum")
	req.Input = bytes.NewReader(content)
	if run, out := finish(t, c, req); !strings.HasPrefix(out.Stdout, hex.EncodeToString(sum[:])) {
		t.Errorf("%+v\n%+v", run, out)
	}
}

// TestPlainStagedStdinTooLarge: the caller gets the error of the input even if the client also waits for the run's end, to remove
// the session that it has made for the files.
func TestPlainStagedStdinTooLarge(t *testing.T) {
	c := newWorld(t, nil, func(o *service.Options) {
		o.MaxStdin = stdin.Limits{MaxBytes: 2 << 20, BytesPerSec: 8 << 20, MaxFrameBytes: 16 << 10, IdleTimeoutSec: 1000}
	}).client()
	for range 8 {
		req := shell("cat >/dev/null; sleep 1000")
		req.Input = bytes.NewReader(make([]byte, 2<<20+1))
		req.Upload = archive(t, map[string]string{"big": strings.Repeat("x", belljar.MaxInlineBytes+1)})
		_, _, err := tryFinish(t, c, req)
		want(t, err, belljar.CodeQuotaExceeded)
	}
}

// TestPlainStdinTooLarge: a program never continues with a part of its input.
func TestPlainStdinTooLarge(t *testing.T) {
	c := newWorld(t, nil, func(o *service.Options) {
		o.MaxStdin = stdin.Limits{MaxBytes: 2 << 20, BytesPerSec: 8 << 20, MaxFrameBytes: 16 << 10, IdleTimeoutSec: 1000}
	}).client()
	req := shell("cat >/dev/null; sleep 1000")
	req.Input = bytes.NewReader(make([]byte, 2<<20+1))
	_, _, err := tryFinish(t, c, req)
	e := want(t, err, belljar.CodeQuotaExceeded)
	page, err := c.Runs().List(within(t), belljar.RunQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Phase != belljar.PhaseKilled {
		t.Fatalf("%+v, %v", page, err)
	}
	if e.Details["reason"] != "stdin_max_bytes" || e.Details["run_id"] != page.Items[0].ID {
		t.Errorf("%+v", e)
	}
	req = shell("wc -c")
	req.Input = bytes.NewReader(make([]byte, 2<<20))
	if _, out := finish(t, c, req); strings.TrimSpace(out.Stdout) != "2097152" {
		t.Errorf("what just fits: %+v", out)
	}
	req.StdinMaxBytes = 3 << 20 // an explicit value above the server's cap is refused
	_, err = c.Runs().Start(within(t), req)
	want(t, err, belljar.CodePolicyDenied)
}

// TestStdinBreaks: a program never continues with a part of its input because the source failed.
func TestStdinBreaks(t *testing.T) {
	c := newWorld(t, nil).client()
	broken := errors.New("the disk is broken")
	req := shell("cat")
	req.Input = io.MultiReader(strings.NewReader("half"), failing{broken})
	run, err := c.Runs().Start(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = belljar.Collect(within(t), c.Runs(), run.ID)
	if e := want(t, err, belljar.CodeInvalidRequest); !errors.Is(err, broken) || e.Details["run_id"] != run.ID || e.Details["sent_bytes"] != int64(4) {
		t.Errorf("%+v", e)
	}
	if run, err = c.Runs().Get(within(t), run.ID); err != nil || run.Phase != belljar.PhaseKilled {
		t.Errorf("%+v, %v", run, err)
	}
}

// blocking is a reader that blocks forever and reports the first read.
type blocking struct{ read, free chan struct{} }

func newBlocking(t *testing.T) *blocking {
	b := &blocking{read: make(chan struct{}, 1), free: make(chan struct{})}
	t.Cleanup(func() { close(b.free) })
	return b
}

func (b *blocking) Read([]byte) (int, error) {
	select {
	case b.read <- struct{}{}:
	default:
	}
	<-b.free
	return 0, io.EOF
}

// TestStdinBlocks: a blocked source delays neither the end of the program nor that of the client.
func TestStdinBlocks(t *testing.T) {
	c := newWorld(t, nil).client()
	req := shell("echo done")
	req.Input = newBlocking(t)
	if run, out := finish(t, c, req); out.Stdout != "done\n" || run.Phase != belljar.PhaseCompleted {
		t.Errorf("%+v\n%+v", run, out)
	}
	req = shell("echo ready; cat")
	b := newBlocking(t)
	req.Input = b
	if _, err := c.Runs().Start(within(t), req); err != nil {
		t.Fatal(err)
	}
	<-b.read
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestStdinUnread: a program may end before it has read all its input.
func TestStdinUnread(t *testing.T) {
	c := newWorld(t, nil).client()
	req := shell("head -c 10 >/dev/null; exec 0<&-; exit 4")
	req.Input = bytes.NewReader(make([]byte, 8<<20))
	if run, _ := finish(t, c, req); run.ExitCode == nil || *run.ExitCode != 4 {
		t.Errorf("%+v", run)
	}
}

// TestStdinQueued: input may be opened and written while the run is queued.
func TestStdinQueued(t *testing.T) {
	c := newWorld(t, nil, func(o *service.Options) { o.Concurrency = 1 }).client()
	first, err := c.Runs().Start(within(t), shell("exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	req := shell("cat; cat")
	req.Interactive = true
	second, err := c.Runs().Start(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	if second.Phase != belljar.PhaseQueued {
		t.Fatalf("%+v", second)
	}
	in, err := c.Runs().Stdin(within(t), second.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "early"); err != nil {
		t.Fatal(err)
	}
	third := shell("cat")
	third.Input = strings.NewReader("fed while queued")
	last, err := c.Runs().Start(within(t), third)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Runs().Cancel(within(t), first.ID); err != nil {
		t.Fatal(err)
	}
	for f, err := range c.Runs().Frames(within(t), second.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == belljar.FrameStdout {
			if string(f.Output) != "early" {
				t.Errorf("%q", f.Output)
			}
			if err := in.End(); err != nil {
				t.Error(err)
			}
		}
	}
	<-in.Closed()
	if in.Reason() != "client" {
		t.Errorf("closed for %s", in.Reason())
	}
	if _, err := io.WriteString(in, "late"); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if _, out, err := belljar.Collect(within(t), c.Runs(), last.ID); err != nil || out.Stdout != "fed while queued" {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestStdinFlush: after Flush, input of another connection comes after what was written.
func TestStdinFlush(t *testing.T) {
	c := newWorld(t, nil, func(o *service.Options) { o.Concurrency = 1 }).client()
	first, err := c.Runs().Start(within(t), shell("exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	req := shell("cat")
	req.Interactive = true
	run, err := c.Runs().Start(within(t), req) // queued, so that its input waits
	if err != nil {
		t.Fatal(err)
	}
	links := make([]belljar.Stdin, 2)
	for i := range links {
		if links[i], err = c.Runs().Stdin(within(t), run.ID); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("a", 100<<10)
	if _, err := io.WriteString(links[0], long); err != nil {
		t.Fatal(err)
	}
	flushed := make(chan error, 1)
	go func() { flushed <- links[0].(interface{ Flush() error }).Flush() }()
	select {
	case err := <-flushed:
		t.Errorf("flushed before the program runs: %v", err)
	default:
	}
	if err := c.Runs().Cancel(within(t), first.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(links[1], "b"); err != nil {
		t.Fatal(err)
	}
	if err := links[1].End(); err != nil {
		t.Error(err)
	}
	if _, out, err := belljar.Collect(within(t), c.Runs(), run.ID); err != nil || out.Stdout != long+"b" {
		t.Errorf("%d bytes, %v", len(out.Stdout), err)
	}
	<-links[0].Closed() // the log's end came over another connection
	if err := links[0].(interface{ Flush() error }).Flush(); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("after the end: %v", err)
	}
	for _, link := range links {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHold: after Close the program's input stays open for the next Stdin.
func TestHold(t *testing.T) {
	c := newWorld(t, nil).client()
	req := shell("echo zero; cat")
	req.Interactive = true
	run, err := c.Runs().Start(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range c.Runs().Frames(within(t), run.ID, 1) { // Close does not wait long for the program to read
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == belljar.FrameStdout {
			break
		}
	}
	for i, word := range []string{"one ", "two ", "three"} {
		in, err := c.Runs().Stdin(within(t), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, word); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			if err := in.End(); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, out, err := belljar.Collect(within(t), c.Runs(), run.ID); err != nil || out.Stdout != "zero\none two three" {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestStdinLimit(t *testing.T) {
	c := newWorld(t, nil).client()
	req := shell("cat >/dev/null")
	req.Interactive, req.StdinMaxBytes = true, 10
	run, err := c.Runs().Start(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.Runs().Stdin(within(t), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "more than ten"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-in.Closed():
	case <-time.After(limit):
		t.Fatal("it takes more")
	}
	_, err = io.WriteString(in, "more")
	if e := want(t, err, belljar.CodeQuotaExceeded); in.Reason() != "stdin_max_bytes" {
		t.Errorf("%s, %+v", in.Reason(), e)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	ended(t, c, run.ID)
}
