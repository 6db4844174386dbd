//go:build linux

package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/service"
)

// hooked is a reader that calls a function before each Read.
type hooked struct {
	io.Reader
	hook func()
}

func (h hooked) Read(p []byte) (int, error) {
	h.hook()
	return h.Reader.Read(p)
}

// TestRepeatOfRunningUpload: a repeated request does not disturb the first one's run, which has its files in a session of its own.
func TestRepeatOfRunningUpload(t *testing.T) {
	c := newWorld(t, nil).client()
	content := archive(t, map[string]string{"a": strings.Repeat("x", 2<<20)})
	whole, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	request := func(script string, body io.Reader) belljar.RunRequest {
		req := shell(script)
		req.IdempotencyKey, req.Interactive, req.Upload = "K", true, body
		return req
	}
	const script = "read x; wc -c <a"
	first, err := c.Runs().Start(within(t), request(script, strings.NewReader(string(whole))))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	header, rest := strings.NewReader(string(whole[:512])), strings.NewReader(string(whole[512:]))
	again, err := c.Runs().Start(ctx, request(script, io.MultiReader(header, hooked{rest, cancel})))
	if err != nil || again.ID != first.ID {
		t.Errorf("%s and %s: %v", first.ID, again.ID, err)
	}
	_, err = c.Runs().Start(within(t), request("read x; echo another", strings.NewReader(string(whole))))
	want(t, err, belljar.CodeIdempotency)
	in, err := c.Runs().Stdin(within(t), first.ID)
	if err != nil {
		t.Fatal(err)
	}
	write(t, in)
	_, out, err := belljar.Collect(within(t), c.Runs(), first.ID)
	if err != nil || out.Stdout != "2097152\n" {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestRepeatAfterRefusal: the key of a request starts its run after the server has refused the first try.
func TestRepeatAfterRefusal(t *testing.T) {
	var refused atomic.Int32
	c := newWorld(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/runs") && refused.Add(1) < 3 {
				envelope(http.StatusServiceUnavailable, belljar.CodeRuntimeUnavailable)(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}).client()
	request := func() belljar.RunRequest {
		req := shell("wc -c <a")
		req.IdempotencyKey, req.Upload = "K", archive(t, map[string]string{"a": strings.Repeat("x", 2<<20)})
		return req
	}
	for range 2 {
		_, err := c.Runs().Start(within(t), request())
		want(t, err, belljar.CodeRuntimeUnavailable)
	}
	first, out := finish(t, c, request())
	if out.Stdout != "2097152\n" {
		t.Errorf("%+v\n%+v", first, out)
	}
	if again, _ := finish(t, c, request()); again.ID != first.ID {
		t.Errorf("%s and %s", first.ID, again.ID)
	}
}

// TestLostAnswerOfReused: the input of a run arrives if the response is lost on a connection that has been used before.
func TestLostAnswerOfReused(t *testing.T) {
	for name, key := range map[string]string{"own key": "", "the caller's key": "K"} {
		t.Run(name, func(t *testing.T) {
			var tries atomic.Int32
			c := newWorld(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/runs") && tries.Add(1) == 1 {
						next.ServeHTTP(httptest.NewRecorder(), r)
						panic(http.ErrAbortHandler)
					}
					next.ServeHTTP(w, r)
				})
			}).client()
			if _, err := c.Node().Me(within(t)); err != nil {
				t.Fatal(err)
			}
			req := shell("cat")
			req.IdempotencyKey, req.Input, req.StdinIdleTimeoutSec = key, strings.NewReader("fed all the same"), 2
			if run, out := finish(t, c, req); out.Stdout != "fed all the same" || tries.Load() != 2 {
				t.Errorf("%+v\n%+v, %d tries", run, out, tries.Load())
			}
		})
	}
}

// approving returns a world whose operator has to approve sessions, and a client that calls asked with their approvals.
func approving(t *testing.T, wrap around, asked func(*world, belljar.Approval)) *client.Client {
	t.Helper()
	w := newWorld(t, wrap, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.Approval = []string{"cpu>0.5"}
	})
	return w.client(func(o *client.Options) { o.Asked = func(a belljar.Approval) { asked(w, a) } })
}

// TestRepeatAfterApproval: a repeated request of an approved session returns its run after the run and the session have ended.
func TestRepeatAfterApproval(t *testing.T) {
	c := approving(t, nil, func(w *world, a belljar.Approval) {
		if _, err := w.client(as("root")).Admin().Decide(within(t), a.ID, belljar.ApprovalDecision{Decision: belljar.DecisionApprove}); err != nil {
			t.Error(err)
		}
	})
	request := func() belljar.RunRequest {
		req := shell("wc -c <a")
		req.IdempotencyKey, req.Upload = "K", archive(t, map[string]string{"a": strings.Repeat("x", 2<<20)})
		return req
	}
	first, out := finish(t, c, request())
	if out.Stdout != "2097152\n" {
		t.Errorf("%+v\n%+v", first, out)
	}
	if err := c.Sessions().Delete(within(t), first.SessionID); err != nil { // the client may still be doing so
		want(t, err, belljar.CodeNotFound)
	}
	if again, _ := finish(t, c, request()); again.ID != first.ID {
		t.Errorf("%s and %s", first.ID, again.ID)
	}
}

// TestLostAnswerOfStaged: a session of one upload ends with its request, although the first response about it was lost.
func TestLostAnswerOfStaged(t *testing.T) {
	var tries atomic.Int32
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	c := approving(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/sessions") && tries.Add(1) == 1 {
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}, func(*world, belljar.Approval) { cancel() })
	req := shell("true")
	req.Upload = archive(t, map[string]string{"a": strings.Repeat("x", 2<<20)})
	_, err := c.Runs().Start(ctx, req)
	want(t, err, belljar.CodeCanceled)
	all, err := c.Sessions().List(within(t), belljar.SessionQuery{All: true})
	if err != nil || all.Total != 1 || all.Items[0].State != belljar.SessionClosed || tries.Load() != 2 {
		t.Errorf("%+v, %v, %d tries", all, err, tries.Load())
	}
}

// TestStaleConnection: without retries, a run starts although the server has closed the connection that was kept, and gets its
// input if the server has started it on that one.
func TestStaleConnection(t *testing.T) {
	for name, processed := range map[string]bool{"unread": false, "processed": true} {
		t.Run(name, func(t *testing.T) {
			var tries atomic.Int32
			c := newWorld(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/runs") && tries.Add(1) == 1 {
						if processed {
							next.ServeHTTP(httptest.NewRecorder(), r)
						}
						panic(http.ErrAbortHandler)
					}
					next.ServeHTTP(w, r)
				})
			}).client(patience(-1))
			if _, err := c.Node().Me(within(t)); err != nil {
				t.Fatal(err)
			}
			req := shell("cat")
			req.IdempotencyKey, req.Input, req.StdinIdleTimeoutSec = "K", strings.NewReader("fed all the same"), 2
			if run, out := finish(t, c, req); out.Stdout != "fed all the same" || tries.Load() != 2 {
				t.Errorf("%+v\n%+v, %d tries", run, out, tries.Load())
			}
		})
	}
}
