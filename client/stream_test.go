//go:build linux

package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// TestStreamEnds checks which ends of a stream are final, and where the client resumes after the others.
func TestStreamEnds(t *testing.T) {
	const (
		first  = `{"type":"stdout","encoding":"utf8","data":"one","seq":1}`
		again  = `{"type":"stdout","encoding":"utf8","data":"one","seq":1}`
		note   = `{"type":"event","event":"resume","data":{"requested_from_seq":2},"seq":2}`
		second = `{"type":"stdout","encoding":"utf8","data":"two","seq":2}`
		end    = `{"type":"event","event":"end","data":{},"seq":3}`
	)
	for name, test := range map[string]struct {
		code     websocket.StatusCode // of the first connection, after the first frame; 0 cuts it
		messages []string             // of the second connection
		froms    string               // from_seq of the connections
		want     string
		err      belljar.Code
	}{
		"cut":                    {0, []string{second, end}, "1 2", "one two", ""},
		"shutting down":          {websocket.StatusGoingAway, []string{second, end}, "1 2", "one two", ""},
		"failed inside":          {websocket.StatusInternalError, []string{second, end}, "1 2", "one two", ""},
		"too slow":               {websocket.StatusTryAgainLater, []string{second, end}, "1 2", "one two", ""},
		"duplicates and notes":   {0, []string{note, again, second, end}, "1 2", "one two", ""},
		"the log is shorter":     {0, []string{strings.Replace(note, `"seq":2`, `"seq":1`, 1), strings.Replace(again, "one", "anew", 1), end}, "1 2", "one anew", ""},
		"the log was swept":      {0, []string{note, end}, "1 2", "one", ""},
		"at its end without end": {websocket.StatusNormalClosure, nil, "1", "one", ""},
		"not to be done again":   {websocket.StatusPolicyViolation, nil, "1", "one", belljar.CodeInternal},
		"revoked":                {4001, nil, "1", "one", belljar.CodeUnauthorized},
		"not a frame":            {0, []string{"{"}, "1 2", "one", belljar.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			froms := make(chan string, 8)
			var n atomic.Int32
			c := open(t, double(t, func(w http.ResponseWriter, r *http.Request) {
				froms <- r.URL.Query().Get("from_seq")
				conn, err := websocket.Accept(w, r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.CloseNow()
				messages := test.messages
				if n.Add(1) == 1 {
					messages = []string{first}
				}
				for _, m := range messages {
					if err := conn.Write(r.Context(), websocket.MessageText, []byte(m)); err != nil {
						return
					}
				}
				if n.Load() == 1 && test.code != 0 {
					_ = conn.Close(test.code, "told")
				}
			}))
			var got []string
			var failed error
			for f, err := range c.Runs().Frames(within(t), "x", 1) {
				if failed = err; err == nil && f.Type == belljar.FrameStdout {
					got = append(got, string(f.Output))
				}
			}
			if failed == nil && test.err != "" || failed != nil && belljar.CodeOf(failed) != test.err {
				t.Errorf("%v, want %s", failed, test.err)
			}
			close(froms)
			var asked []string
			for from := range froms {
				asked = append(asked, from)
			}
			if strings.Join(got, " ") != test.want || strings.Join(asked, " ") != test.froms {
				t.Errorf("%q by asking for %q, want %q by %q", got, asked, test.want, test.froms)
			}
		})
	}
}

// TestFramesGivesUp: following a log ends if the server does not return.
func TestFramesGivesUp(t *testing.T) {
	answer, _ := script(says(502, "text/html", "<html>"))
	c := open(t, double(t, answer), patience(50*time.Millisecond))
	want(t, endOfLog(t, c, "x"), belljar.CodeRuntimeUnavailable)
}

// A caller gets one report for each retried request, with the time for retries, but none if the first retry succeeds.
func TestBroken(t *testing.T) {
	gateway, later := says(502, "text/html", "<html>"), envelope(503, belljar.CodeRuntimeUnavailable, "Retry-After", "1")
	fine := says(200, "application/json", `{"id":"x"}`)
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		want    int32
		most    time.Duration // for which it is tried again
	}{
		"mended at once":         {[]http.HandlerFunc{gateway, fine}, 0, limit},
		"fails again":            {[]http.HandlerFunc{gateway, gateway, gateway, fine}, 1, limit},
		"a wait of seconds":      {[]http.HandlerFunc{later, fine}, 1, 3 * time.Second},
		"two waits, and no more": {[]http.HandlerFunc{later, later, fine}, 1, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reported atomic.Int32
			answer, _ := script(c.answers...)
			client := open(t, double(t, answer), func(o *client.Options) {
				o.Broken = func(err error, left time.Duration) {
					reported.Add(1)
					if err == nil || left <= 0 || left > c.most {
						t.Errorf("%v, %v", err, left)
					}
				}
			})
			if _, err := client.Runs().Get(within(t), "x"); err != nil || reported.Load() != c.want {
				t.Errorf("%v, reported %d times", err, reported.Load())
			}
		})
	}
}

// TestFramesAreReported: if a log breaks and cannot be resumed, its reader gets the time for retries.
func TestFramesAreReported(t *testing.T) {
	var n atomic.Int32
	broken := make(chan time.Duration, 1)
	c := open(t, double(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 1 {
			w.WriteHeader(http.StatusBadGateway)
		} else if conn, err := websocket.Accept(w, r, nil); err == nil {
			_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"stdout","encoding":"utf8","data":"one","seq":1}`))
			conn.CloseNow()
		}
	}), func(o *client.Options) { o.Broken = func(_ error, left time.Duration) { broken <- left } })
	ctx, stop := context.WithCancel(within(t))
	go func() {
		if left := <-broken; left < 9*limit || left > 10*limit {
			t.Errorf("%v", left)
		}
		stop()
	}()
	for _, err := range c.Runs().Frames(ctx, "x", 1) {
		if err != nil {
			want(t, err, belljar.CodeCanceled)
		}
	}
	if n.Load() != 2 {
		t.Errorf("%d connections", n.Load())
	}
}

// TestInputBreaks: if a program's input breaks, the run is cancelled and its reader gets the error.
func TestInputBreaks(t *testing.T) {
	cutter := &cutter{conns: make(chan net.Conn, 1)}
	c := newWorld(t, cutter.wrap).client()
	req := shell("read x; echo $x; cat >/dev/null; sleep 1000")
	req.Input = io.MultiReader(strings.NewReader("first\n"), newBlocking(t))
	run, err := c.Runs().Start(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	for f, err := range c.Runs().Frames(within(t), run.ID, 1) {
		if f.Type == belljar.FrameStdout {
			(<-cutter.conns).Close()
		}
		failed = err
	}
	if e := want(t, failed, belljar.CodeRuntimeUnavailable); fmt.Sprint(e.Details["sent_bytes"]) != "6" {
		t.Errorf("%+v", e)
	}
	if run, err = c.Runs().Get(within(t), run.ID); err != nil || run.ReasonCode != belljar.ReasonCanceledByUser {
		t.Errorf("%+v, %v", run, err)
	}
}

// cutter collects the connections for input.
type cutter struct{ conns chan net.Conn }

func (k *cutter) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("from_seq") == "tail" {
			w = &cuttable{w, k}
		}
		next.ServeHTTP(w, r)
	})
}

type cuttable struct {
	http.ResponseWriter
	k *cutter
}

func (c *cuttable) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cuttable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	hijacker, ok := c.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("not to be hijacked")
	}
	conn, buf, err := hijacker.Hijack()
	if err == nil {
		c.k.conns <- conn
	}
	return conn, buf, err
}
