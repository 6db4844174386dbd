// Package forward makes ports of a session reachable on this machine.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

// Pair is a port of a session and the local port that forwards to it; 0 is any free port.
type Pair struct{ Port, Local int }

// Parse reads PORT or PORT:LOCAL.
func Parse(text string) (p Pair, err error) {
	port, local, given := strings.Cut(text, ":")
	if p.Port, err = number(port, 1); err == nil {
		if p.Local = p.Port; given {
			p.Local, err = number(local, 0)
		}
	}
	if err != nil {
		return p, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%.40q is not a port", text), Hint: "write 3000, or 3000:8080 for port 8080 of this machine",
		}
	}
	return p, nil
}

func number(text string, least int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || int(n) < least {
		return 0, strconv.ErrRange
	}
	return int(n), nil
}

// Forward carries connections to the ports of a session.
type Forward struct {
	Ports   belljar.Ports
	Session string
	Notice  *notice.Writer

	mu     sync.Mutex
	last   string             // the last reported failure of a connection
	ended  error              // the session has ended
	cancel context.CancelFunc // ends everything
	open   sync.WaitGroup
}

// Run listens for all pairs and carries connections until ctx ends, or a connection finds that the session has ended. A lost connection to the server ends only
// the connections that it carries.
func (f *Forward) Run(ctx context.Context, pairs []Pair) error {
	ctx, f.cancel = context.WithCancel(ctx)
	defer f.cancel()
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
		f.open.Wait()
	}()
	for _, p := range pairs {
		l, err := listen(p)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
	}
	for i, p := range pairs {
		l := listeners[i]
		f.Notice.Print("http://%s → port %d of %s", l.Addr(), p.Port, f.Session)
		f.open.Go(func() { f.accept(ctx, l, p.Port) })
	}
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// listen listens on this machine's loopback interface.
func listen(p Pair) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Local)))
	if err == nil {
		return l, nil
	}
	e := &belljar.Error{Code: belljar.CodeConflict, Message: fmt.Sprintf("cannot listen on port %d of this machine", p.Local), Err: err}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.Message, e.Err = fmt.Sprintf("port %d of this machine is in use", p.Local), nil
		e.Hint = fmt.Sprintf("choose another one: %d:%d, or %d:0 for any", p.Port, p.Local%65535+1, p.Port)
	case errors.Is(err, syscall.EACCES):
		e.Code, e.Hint = belljar.CodeForbidden, fmt.Sprintf("choose a port above 1023: %d:%d", p.Port, 8000+p.Port%1000)
	}
	return nil, e
}

// acceptPause is the pause after accept fails, for example because of too many open files.
const acceptPause = 50 * time.Millisecond

func (f *Forward) accept(ctx context.Context, l net.Listener, port int) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			f.open.Go(func() { f.carry(ctx, c.(*net.TCPConn), port) })
		case ctx.Err() != nil:
			return
		default:
			f.say(fmt.Sprintf("connections to port %d are not accepted now: %v", port, err), "")
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
		}
	}
}

// carry carries one connection.
func (f *Forward) carry(ctx context.Context, local *net.TCPConn, port int) {
	defer local.Close()
	remote, err := f.Ports.Dial(ctx, f.Session, port)
	if err != nil {
		_ = local.SetLinger(0) // the client sees a reset
		f.failed(ctx, err)
		return
	}
	f.worked()
	stop := context.AfterFunc(ctx, func() {
		_ = remote.Abort()
		local.Close()
	})
	defer stop()
	cut := func() {
		_ = remote.Abort()
		_ = local.SetLinger(0)
		local.Close()
	}
	var up sync.WaitGroup
	up.Go(func() {
		if _, err := io.Copy(remote, local); err != nil {
			cut()
			return
		}
		_ = remote.CloseWrite() // the other direction reports the error
	})
	if _, err := io.Copy(local, remote); err != nil {
		cut()
		f.failed(ctx, err)
	} else {
		_ = local.CloseWrite()
	}
	up.Wait()
	_ = remote.Close()
}

// failed reports why a connection failed, and a repeated reason only once. The end of the session ends everything.
func (f *Forward) failed(ctx context.Context, err error) {
	var e *belljar.Error
	switch {
	case ctx.Err() != nil, !errors.As(err, &e): // the program or the client closed the connection
		return
	case e.Code == belljar.CodeConflict && !sleeps(e), e.Code == belljar.CodeNotFound && e.Details["port"] == nil, e.Code == belljar.CodeUnauthorized:
		f.mu.Lock()
		if f.ended == nil {
			f.ended = err
		}
		f.mu.Unlock()
		f.cancel()
		return
	}
	f.say(e.Error(), e.Hint)
}

// sleeps reports whether a conflict is due to a session that has a state other than an ended one: the next connection may wake it.
func sleeps(e *belljar.Error) bool {
	state, ok := e.Details["state"].(string)
	return ok && !belljar.SessionState(state).Ended()
}

func (f *Forward) say(text, hint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == text {
		return
	}
	f.last = text
	f.Notice.Print("%s", text)
	if hint != "" {
		f.Notice.Hint("%s", hint)
	}
}

// worked makes failed report the next failure.
func (f *Forward) worked() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = ""
}
