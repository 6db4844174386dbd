package client

import (
	"context"
	"errors"
	"io"
	"time"
)

var errSilent = errors.New("the server does not answer")

// watcher ends a request whose server says nothing for too long while it owes something.
type watcher struct {
	silence time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

// watch returns a context for one request, and who watches over it. It must be ended.
func watch(ctx context.Context, silence time.Duration) (context.Context, *watcher) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watcher{silence: silence, cancel: cancel}
	w.timer = time.AfterFunc(silence, func() { cancel(errSilent) })
	w.timer.Stop()
	return ctx, w
}

// owe says that it is the server's turn, and mine that it is not.
func (w *watcher) owe()  { w.timer.Reset(w.silence) }
func (w *watcher) mine() { w.timer.Stop() }

// end gives up the request.
func (w *watcher) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// sending is a request's body: while we look for more of it, the server owes nothing.
type sending struct {
	io.Reader
	w *watcher
}

func (s *sending) Read(p []byte) (int, error) {
	s.w.mine()
	n, err := s.Reader.Read(p)
	s.w.owe()
	return n, err
}

// own is a pipe that the client has made itself.
type own struct{ *io.PipeReader }

// breakable returns a body whose Read ends with ctx at the latest: the transport waits for it when the connection is over,
// whatever becomes of the request, and what it is read from may block for as long as it likes.
func breakable(ctx context.Context, source io.Reader) io.Reader {
	pipe, ok := source.(own)
	if !ok {
		out, in := io.Pipe()
		pipe = own{out}
		go func() {
			_, err := io.Copy(in, source)
			_ = in.CloseWithError(err) // never fails
		}()
	}
	context.AfterFunc(ctx, func() { _ = pipe.CloseWithError(errEnough) })
	return pipe
}

// receiving is an answer's body: the server owes something while we read.
type receiving struct {
	io.ReadCloser
	w *watcher
}

func (r *receiving) Read(p []byte) (int, error) {
	r.w.owe()
	n, err := r.ReadCloser.Read(p)
	r.w.mine()
	return n, err
}

func (r *receiving) Close() error {
	err := r.ReadCloser.Close()
	r.w.end()
	return err
}
