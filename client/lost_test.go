//go:build linux

package client_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/test/sockdir"
)

// TestCancelDuringUpload: a request can be cancelled while its source blocks, and after the server has gone.
func TestCancelDuringUpload(t *testing.T) {
	const id = "01970000-0000-7000-8000-000000000000"
	calls := map[string]func(context.Context, *client.Client, io.Reader) error{
		"upload": func(ctx context.Context, c *client.Client, r io.Reader) error {
			_, err := c.Sessions().Upload(ctx, id, belljar.Upload{Parts: parts(belljar.UploadPart{Name: "a", Body: r})})
			return err
		},
		"write": func(ctx context.Context, c *client.Client, r io.Reader) error {
			_, err := c.Files().Write(ctx, id, belljar.FileWrite{Path: "a", Content: r})
			return err
		},
		"import": func(ctx context.Context, c *client.Client, r io.Reader) error {
			_, err := c.Images().Import(ctx, "a", r, nil)
			return err
		},
	}
	for name, call := range calls {
		for where, then := range map[string]http.HandlerFunc{"a silent server": silent, "a server that goes": hangUp} {
			t.Run(name+" to "+where, func(t *testing.T) {
				t.Parallel()
				reached := make(chan struct{}, 1)
				c := open(t, double(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = r.Body.Read(make([]byte, 1))
					reached <- struct{}{}
					then(w, r)
				}))
				ctx, cancel := context.WithCancel(within(t))
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- call(ctx, c, io.MultiReader(strings.NewReader("begun"), newBlocking(t))) }()
				<-reached
				cancel()
				select {
				case err := <-ended:
					if err == nil {
						t.Error("it was sent")
					}
				case <-time.After(limit):
					t.Error("it goes on")
				}
			})
		}
	}
}

// TestLostAnswer: a run is not started twice if the response to the first request is lost.
func TestLostAnswer(t *testing.T) {
	var lost atomic.Int32
	w := newWorld(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "s") && lost.Add(1)%2 == 1 {
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})
	c := w.client()
	req := shell("cat")
	req.Input = strings.NewReader("fed all the same")
	run, out := finish(t, c, req)
	if out.Stdout != "fed all the same" {
		t.Errorf("%+v\n%+v", run, out)
	}
	page, err := c.Runs().List(within(t), belljar.RunQuery{})
	if err != nil || page.Total != 1 || lost.Load() != 2 {
		t.Errorf("%d runs, %d requests, %v", page.Total, lost.Load(), err)
	}
	s := session(t, c)
	all, err := c.Sessions().List(within(t), belljar.SessionQuery{})
	if err != nil || all.Total != 1 || all.Items[0].ID != s.ID {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestFramesResume: a log arrives complete, each frame once, over connections that break repeatedly.
func TestFramesResume(t *testing.T) {
	w := newWorld(t, nil)
	p := newFlaky(t, strings.TrimPrefix(w.url, "http://"), 3000)
	run, err := w.client().Runs().Start(within(t), shell("i=0; while [ $i -lt 400 ]; do echo line $i of a log that is long enough to break; i=$((i+1)); done"))
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, "http://"+p.address, patience(time.Minute))
	var got strings.Builder
	next := uint64(1)
	for f, err := range c.Runs().Frames(within(t), run.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Seq != next {
			t.Fatalf("frame %d, want %d", f.Seq, next)
		}
		next++
		got.Write(f.Output)
	}
	var wanted strings.Builder
	for i := range 400 {
		fmt.Fprintf(&wanted, "line %d of a log that is long enough to break\n", i)
	}
	if got.String() != wanted.String() {
		t.Errorf("%d bytes, want %d", got.Len(), wanted.Len())
	}
	if p.broken.Load() < 2 {
		t.Errorf("it broke %d times only", p.broken.Load())
	}
}

// flaky is a network that breaks every connection after some bytes of the server, more each time.
type flaky struct {
	address string
	broken  atomic.Int32
}

func newFlaky(t *testing.T, to string, first int64) *flaky {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &flaky{address: l.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	all.Go(func() {
		for budget := first; ; budget += first {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { f.carry(in.(*net.TCPConn), to, budget) })
		}
	})
	return f
}

func (f *flaky) carry(in *net.TCPConn, to string, budget int64) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	var up sync.WaitGroup
	defer up.Wait()
	defer in.Close()
	up.Go(func() {
		_, _ = io.Copy(out, in)
		out.Close()
	})
	if n, _ := io.CopyN(in, out, budget); n == budget {
		f.broken.Add(1)
		_ = in.SetLinger(0) // a reset
	}
}

// TestUnix: a server may listen on a unix socket.
func TestUnix(t *testing.T) {
	dir := sockdir.New(t)
	serveUnix(t, dir+"/s", says(200, "application/json", `{"user_id":"alice"}`))
	if me, err := open(t, "unix:"+dir+"/s").Node().Me(within(t)); err != nil || me.UserID != "alice" {
		t.Errorf("%+v, %v", me, err)
	}
	_, err := open(t, "unix:"+dir+"/none").Node().Me(within(t))
	if e := want(t, err, belljar.CodeRuntimeUnavailable); !strings.Contains(e.Message, dir+"/none") {
		t.Errorf("%+v", e)
	}
}

func serveUnix(t *testing.T, path string, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, answer)
}

// TestRestartOnce: a request that is not idempotent also waits for an unreachable server, since it has not been sent yet.
func TestRestartOnce(t *testing.T) {
	dir := sockdir.New(t)
	answer := says(200, "application/json", `{}`, "Connection", "close") // prevents reuse of connections
	first := serveUnix(t, dir+"/s", answer)
	c := open(t, "unix:"+dir+"/s", patience(limit))
	if _, err := c.Node().Me(within(t)); err != nil {
		t.Fatal(err)
	}
	first.Close()
	done := make(chan error, 1)
	ctx, failed := unreached(within(t))
	go func() { done <- c.Files().Rename(ctx, "x", "a", "b", false) }()
	<-failed
	serveUnix(t, dir+"/s", answer)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
