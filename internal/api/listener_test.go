package api_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar/internal/api"
)

// scarce is a listener that fails with each error in turn, then accepts one connection, and then fails forever.
type scarce struct {
	net.Listener
	errs   []error
	conn   net.Conn
	closed chan struct{}
}

func (s *scarce) Accept() (net.Conn, error) {
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return nil, err
	}
	if conn := s.conn; conn != nil {
		s.conn = nil
		return conn, nil
	}
	select {
	case <-s.closed:
		return nil, net.ErrClosed
	default:
		return nil, syscall.ENOMEM
	}
}

func (s *scarce) Close() error {
	close(s.closed)
	return nil
}

func (s *scarce) Addr() net.Addr { return &net.TCPAddr{} }

// A server whose listener fails for lack of something continues when it works again, and ends when it is closed.
func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, conn := net.Pipe()
		var text bytes.Buffer
		l := &scarce{errs: []error{syscall.ENOSPC, &net.OpError{Op: "accept", Err: syscall.EMFILE}, syscall.ENOBUFS}, conn: conn, closed: make(chan struct{})}
		server, served := api.NewServer(http.NotFoundHandler(), nil), make(chan error, 1)
		began := time.Now()
		go func() { served <- server.Serve(api.NewListener(l, slog.New(slog.NewTextHandler(&text, nil)))) }()
		if _, err := client.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 12)
		if _, err := client.Read(answer); err != nil || string(answer) != "HTTP/1.0 404" {
			t.Errorf("%q, %v", answer, err)
		}
		client.Close()
		if waited := time.Since(began); waited <= 0 || waited > time.Second {
			t.Errorf("it took %v", waited)
		}
		time.Sleep(25 * time.Second) // of the bubble's clock, in which it fails all the time
		synctest.Wait()
		if n := strings.Count(text.String(), "not accepted"); n != 3 || !strings.Contains(text.String(), syscall.ENOSPC.Error()) {
			t.Errorf("%d entries: %s", n, text.String())
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// A listener that is closed while it waits ends at once.
func TestListenerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := api.NewListener(&scarce{closed: make(chan struct{})}, slog.New(slog.DiscardHandler))
		ended := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		synctest.Wait()
		now := time.Now()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) || time.Since(now) != 0 {
			t.Errorf("%v after %v", err, time.Since(now))
		}
	})
}
