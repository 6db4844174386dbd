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
