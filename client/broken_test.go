//go:build linux

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// double returns the URL of a server with a handler.
func double(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

// script uses one handler for each request, and the last one for all later requests.
func script(answers ...http.HandlerFunc) (http.HandlerFunc, *atomic.Int32) {
	n := new(atomic.Int32)
	return func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1))
		answers[min(i, len(answers))-1](w, r)
	}, n
}

func says(status int, kind, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func envelope(status int, code belljar.Code, header ...string) http.HandlerFunc {
	return says(status, "application/json", fmt.Sprintf(`{"error":{"code":%q,"message":"told","hint":"do"}}`, code), header...)
}

// hangUp closes the connection without a response, or in the middle of one.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"user_id":"al`)
	panic(http.ErrAbortHandler)
}

// silent never responds.
func silent(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // before that, the server cannot detect a disconnect
	<-r.Context().Done()
}

func TestAnswers(t *testing.T) {
	fine := says(200, "application/json", `{"user_id":"alice"}`)
	for name, test := range map[string]struct {
		answers []http.HandlerFunc
		code    belljar.Code // "" for success
		asked   int32
	}{
		"fine":                        {[]http.HandlerFunc{fine}, "", 1},
		"told":                        {[]http.HandlerFunc{envelope(403, belljar.CodePolicyDenied)}, belljar.CodePolicyDenied, 1},
		"html instead of an answer":   {[]http.HandlerFunc{says(200, "text/html", "<html>sign in</html>")}, belljar.CodeInternal, 1},
		"html instead of a failure":   {[]http.HandlerFunc{says(404, "text/html", "<html>")}, belljar.CodeNotFound, 1},
		"a teapot":                    {[]http.HandlerFunc{says(418, "text/plain", "short and stout")}, belljar.CodeInternal, 1},
		"foreign json":                {[]http.HandlerFunc{says(400, "application/json", `{"error":"no"}`)}, belljar.CodeInternal, 1},
		"not json at all":             {[]http.HandlerFunc{says(200, "application/json", `{"user`)}, belljar.CodeInternal, 1},
		"null":                        {[]http.HandlerFunc{says(200, "application/json", `null`)}, belljar.CodeInternal, 1},
		"a redirect":                  {[]http.HandlerFunc{says(302, "text/html", "", "Location", "http://elsewhere.invalid/")}, belljar.CodeInternal, 1},
		"cut off, then fine":          {[]http.HandlerFunc{cut, fine}, "", 2},
		"hung up on, then fine":       {[]http.HandlerFunc{hangUp, hangUp, fine}, "", 3},
		"429 with seconds":            {[]http.HandlerFunc{envelope(429, belljar.CodeRateLimited, "Retry-After", "0"), fine}, "", 2},
		"429 with a date":             {[]http.HandlerFunc{envelope(429, belljar.CodeRateLimited, "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), fine}, "", 2},
		"429 for too long":            {[]http.HandlerFunc{envelope(429, belljar.CodeQuotaExceeded, "Retry-After", "3600")}, belljar.CodeQuotaExceeded, 1},
		"429 without a word":          {[]http.HandlerFunc{envelope(429, belljar.CodeRateLimited)}, belljar.CodeRateLimited, 1},
		"503 of a proxy":              {[]http.HandlerFunc{says(503, "text/html", "", "Retry-After", "0"), fine}, "", 2},
		"503 without a word":          {[]http.HandlerFunc{says(503, "text/html", "")}, belljar.CodeRuntimeUnavailable, 1},
		"503 that stays":              {[]http.HandlerFunc{envelope(503, belljar.CodeRuntimeUnavailable, "Retry-After", "0")}, belljar.CodeRuntimeUnavailable, 3},
		"502 of a proxy":              {[]http.HandlerFunc{says(502, "text/html", "<html>bad gateway</html>"), fine}, "", 2},
		"504 of a proxy":              {[]http.HandlerFunc{says(504, "text/html", ""), fine}, "", 2},
		"504 of ours":                 {[]http.HandlerFunc{envelope(504, belljar.CodeTimeout)}, belljar.CodeTimeout, 1},
		"an internal error is one":    {[]http.HandlerFunc{envelope(500, belljar.CodeInternal)}, belljar.CodeInternal, 1},
		"a code from a later version": {[]http.HandlerFunc{envelope(409, "unheard_of")}, "unheard_of", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, asked := script(test.answers...)
			c := open(t, double(t, answer))
			me, err := c.Node().Me(within(t))
			if test.code == "" {
				if err != nil || me.UserID != "alice" {
					t.Errorf("%+v, %v", me, err)
				}
			} else {
				want(t, err, test.code)
			}
			if asked.Load() != test.asked {
				t.Errorf("asked %d times, want %d", asked.Load(), test.asked)
			}
		})
	}
}

// Text that is not UTF-8 is refused instead of being sent with a replacement character. That character itself is valid.
func TestText(t *testing.T) {
	answer, asked := script(says(200, "application/json", `{}`))
	c := open(t, double(t, answer))
	for text, ok := range map[string]bool{"\xff": false, `\` + "\xff": false, "\ufffd": true, `\ufffd`: true, `\\ufffd`: true} {
		_, err := c.Sessions().Create(within(t), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{Env: map[string]string{"A": text}}})
		if ok != (err == nil) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if asked.Load() != 3 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// TestOnce: requests that are not idempotent are not retried.
func TestOnce(t *testing.T) {
	answer, asked := script(hangUp)
	c := open(t, double(t, answer))
	_, err := c.Admin().CreateToken(within(t), belljar.TokenSpec{UserID: "alice"})
	want(t, err, belljar.CodeRuntimeUnavailable)
	_, err = c.Sessions().Upload(within(t), "x", belljar.Upload{Parts: parts(plain("a", "x"))})
	want(t, err, belljar.CodeRuntimeUnavailable)
	if asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// TestRefusedOnce: such a request is retried if the server has not processed it.
func TestRefusedOnce(t *testing.T) {
	fine := says(200, "application/json", `{}`)
	for name, test := range map[string]struct {
		refusal http.HandlerFunc
		code    belljar.Code
		asked   int32
	}{
		"too many requests":    {envelope(429, belljar.CodeRateLimited, "Retry-After", "0"), "", 2},
		"not now":              {envelope(503, belljar.CodeRuntimeUnavailable, "Retry-After", "0"), belljar.CodeRuntimeUnavailable, 1},
		"a proxy has no reply": {says(502, "text/html", "<html>"), belljar.CodeRuntimeUnavailable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			answer, asked := script(test.refusal, fine)
			err := open(t, double(t, answer)).Files().Rename(within(t), "x", "a", "b", false)
			if belljar.CodeOf(err) != test.code || asked.Load() != test.asked {
				t.Errorf("%v after %d requests", err, asked.Load())
			}
		})
	}
}

// TestNoRanges: a read from an offset is correct even if a proxy supports neither ranges nor lengths.
func TestNoRanges(t *testing.T) {
	const text = "0123456789"
	for name, whole := range map[string]http.HandlerFunc{
		"with its length": says(200, "text/plain", text, "Content-Length", fmt.Sprint(len(text))),
		"without": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, text)
		},
	} {
		for offset, want := range map[int64]string{4: "4567", 9: "9", 10: "", 20: ""} {
			_, r, err := open(t, double(t, whole)).Files().Read(within(t), "x", "f", offset, 4)
			if err != nil {
				t.Errorf("%s, from %d: %v", name, offset, err)
				continue
			}
			got, err := io.ReadAll(r)
			if r.Close(); err != nil || string(got) != want {
				t.Errorf("%s, from %d: %q %v", name, offset, got, err)
			}
		}
	}
}

// TestContentsBreakOff: a premature end of a file's or an artifact's contents is reported as an error.
func TestContentsBreakOff(t *testing.T) {
	c := open(t, double(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/artifacts") {
			says(200, "application/json", `{"items":[{"path":"a","size":1000}]}`)(w, r)
			return
		}
		w.Header().Set("Content-Length", "1000")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	_, file, err := c.Files().Read(within(t), "x", "f", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, artifact, err := c.Artifacts().Open(within(t), "x", "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]io.ReadCloser{"file": file, "artifact": artifact} {
		_, err := io.ReadAll(r)
		if e := want(t, err, belljar.CodeRuntimeUnavailable); !strings.HasPrefix(e.Message, "the "+what+" broke off") {
			t.Error(e)
		}
		r.Close()
	}
}

// TestArchiveBreaksOff: the hint names the likely reasons, which the connection cannot carry.
func TestArchiveBreaksOff(t *testing.T) {
	c := open(t, double(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-tar")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	err := c.Files().Archive(within(t), "x", "", belljar.UploadTar, io.Discard)
	if e := want(t, err, belljar.CodeRuntimeUnavailable); !strings.HasPrefix(e.Hint, "a file in it may be unreadable or changing") {
		t.Errorf("%v, hint %q", e, e.Hint)
	}
	err = c.Snapshots().Export(within(t), "x", io.Discard)
	if e := want(t, err, belljar.CodeRuntimeUnavailable); !strings.HasPrefix(e.Hint, "check the address") {
		t.Errorf("%v, hint %q", e, e.Hint)
	}
}

// TestKeyStays: the key is not sent to the target of a redirect.
func TestKeyStays(t *testing.T) {
	elsewhere := double(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("another server got %v", r.Header) })
	c := open(t, double(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	}),
		func(o *client.Options) { o.HTTP = http.DefaultClient })
	_, err := c.Node().Me(within(t))
	if e := want(t, err, belljar.CodeInternal); !strings.Contains(e.Hint, elsewhere) {
		t.Errorf("%+v", e)
	}
	want(t, endOfLog(t, c, "x"), belljar.CodeInternal)
	http.DefaultClient.CloseIdleConnections()
}

// TestNoServer: a request to an address without a listener fails immediately.
func TestNoServer(t *testing.T) {
	address := taken(t)
	c := open(t, "http://"+address, patience(time.Hour))
	_, err := c.Node().Me(within(t))
	if e := want(t, err, belljar.CodeRuntimeUnavailable); e.Hint == "" || !strings.Contains(e.Message, address) {
		t.Errorf("%+v", e)
	}
	want(t, endOfLog(t, c, "x"), belljar.CodeRuntimeUnavailable)
}

// taken returns an address without a listener, reserved for the test by a bound socket.
func taken(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
}

// shared listens at a loopback port, 0 for any, with SO_REUSEPORT.
func shared(t *testing.T, port int) net.Listener {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		failed := conn.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(failed, err)
	}}
	l, err := config.Listen(within(t), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// kept reserves a port without listening.
func kept(t *testing.T, port int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	if err := errors.Join(err, unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})); err != nil {
		t.Fatal(err)
	}
}

// serveOn serves on a listener.
func serveOn(t *testing.T, l net.Listener, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// unreached returns a context of requests, and a channel that is closed when one of them has not reached its server.
func unreached(ctx context.Context) (context.Context, <-chan struct{}) {
	failed := make(chan struct{})
	done := sync.OnceFunc(func() { close(failed) })
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ConnectDone: func(_, _ string, err error) {
		if err != nil {
			done()
		}
	}}), failed
}

// TestRestart: the client waits for a server that has responded before.
func TestRestart(t *testing.T) {
	answer := says(200, "application/json", `{"user_id":"alice"}`)
	l := shared(t, 0)
	port := l.Addr().(*net.TCPAddr).Port
	kept(t, port)
	first := serveOn(t, l, answer)
	c := open(t, first.URL, patience(limit))
	if _, err := c.Node().Me(within(t)); err != nil {
		t.Fatal(err)
	}
	first.Close()
	done := make(chan error, 1)
	ctx, failed := unreached(within(t))
	go func() {
		_, err := c.Node().Me(ctx)
		done <- err
	}()
	<-failed
	serveOn(t, shared(t, port), answer)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSilence(t *testing.T) {
	short := func(o *client.Options) { o.Silence, o.Patience = 50*time.Millisecond, 10*time.Millisecond }
	t.Run("no answer", func(t *testing.T) {
		c := open(t, double(t, silent), short)
		_, err := c.Node().Me(within(t))
		want(t, err, belljar.CodeRuntimeUnavailable)
		want(t, endOfLog(t, c, "x"), belljar.CodeRuntimeUnavailable)
	})
	t.Run("half an answer", func(t *testing.T) {
		c := open(t, double(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"user`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), short)
		_, err := c.Node().Me(within(t))
		want(t, err, belljar.CodeRuntimeUnavailable)
	})
}

// TestContext: the end of the context ends every call.
func TestContext(t *testing.T) {
	const id = "01970000-0000-7000-8000-000000000000"
	calls := map[string]func(context.Context, *client.Client) error{
		"start": func(ctx context.Context, c *client.Client) error {
			_, err := c.Runs().Start(ctx, shell("true"))
			return err
		},
		"get":    func(ctx context.Context, c *client.Client) error { _, err := c.Runs().Get(ctx, id); return err },
		"stdin":  func(ctx context.Context, c *client.Client) error { _, err := c.Runs().Stdin(ctx, id); return err },
		"delete": func(ctx context.Context, c *client.Client) error { return c.Sessions().Delete(ctx, id) },
		"upload": func(ctx context.Context, c *client.Client) error {
			_, err := c.Sessions().Upload(ctx, id, belljar.Upload{Parts: parts(belljar.UploadPart{Name: "a", Body: newBlocking(t)})})
			return err
		},
		"artifact": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Artifacts().Open(ctx, id, "a", 0)
			return err
		},
		"frames": func(ctx context.Context, c *client.Client) (last error) {
			for _, err := range c.Runs().Frames(ctx, id, 1) {
				last = err
			}
			return last
		},
	}
	for where, answer := range map[string]http.HandlerFunc{
		"while nothing comes": silent,
		"while waiting to repeat": func(w http.ResponseWriter, r *http.Request) {
			says(503, "text/html", "", "Retry-After", "10")(w, r)
		},
	} {
		for name, call := range calls {
			if name == "upload" && where != "while nothing comes" {
				continue // it is not retried
			}
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				asked := make(chan struct{}, 16)
				c := open(t, double(t, func(w http.ResponseWriter, r *http.Request) {
					if where == "while nothing comes" {
						asked <- struct{}{}
						answer(w, r)
						return
					}
					answer(w, r)
					_ = http.NewResponseController(w).Flush()
					asked <- struct{}{}
				}), patience(time.Hour))
				ctx, cancel := context.WithCancelCause(within(t))
				over := errors.New("enough of this")
				go func() {
					<-asked
					cancel(over)
				}()
				err := call(ctx, c)
				if !errors.Is(err, over) && !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
			})
		}
	}
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := open(t, double(t, silent)).Node().Me(ctx)
		if want(t, err, belljar.CodeTimeout); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// late is a context whose deadline has passed but which is not done yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// refusing is a network whose connections all time out.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
}

// TestConnectionIsAheadOfContext: a connection may reach its context's deadline slightly before the context.
func TestConnectionIsAheadOfContext(t *testing.T) {
	c := open(t, "http://nowhere", func(o *client.Options) { o.HTTP = &http.Client{Transport: refusing{}} })
	_, err := c.Node().Me(late{t.Context()})
	want(t, err, belljar.CodeTimeout)
}

// TestLateAttach: if a context ends while a connection waits for a retry, the error is that of the context, not that of the connection.
func TestLateAttach(t *testing.T) {
	c := open(t, double(t, envelope(503, belljar.CodeRuntimeUnavailable, "Retry-After", "60")), patience(time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := c.Terminals().Attach(ctx, "x")
	want(t, err, belljar.CodeTimeout)
	_, err = c.Ports().Dial(ctx, "x", 80)
	want(t, err, belljar.CodeTimeout)
}
