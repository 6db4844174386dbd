package client

import (
	"context"
	"errors"
	"io"
	"time"
)

var errSilent = errors.New("the server does not answer")

// watcher cancels a request if the server is silent for too long while the client waits for it.
type watcher struct {
	silence time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

// watch returns a context for one request and its watcher. Call the watcher's end afterwards.
func watch(ctx context.Context, silence time.Duration) (context.Context, *watcher) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watcher{silence: silence, cancel: cancel}
	w.timer = time.AfterFunc(silence, func() { cancel(errSilent) })
	w.timer.Stop()
	return ctx, w
}

// start starts the timer while the client waits for the server, and stop stops it.
func (w *watcher) start() { w.timer.Reset(w.silence) }
func (w *watcher) stop()  { w.timer.Stop() }

// end ends the request.
func (w *watcher) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// sending is a request's body. The watcher does not count the time to read it from its source.
type sending struct {
	io.Reader
	w *watcher
}

func (s *sending) Read(p []byte) (int, error) {
	s.w.stop()
	n, err := s.Reader.Read(p)
	s.w.start()
	return n, err
}

// own is a pipe made by the client.
type own struct{ *io.PipeReader }

// breakable returns a body whose Read ends with ctx at the latest. After the end of the connection the transport waits for
// Read, and the source may block forever.
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

// receiving is a response's body. The watcher counts the time of each Read.
type receiving struct {
	io.ReadCloser
	w *watcher
}

func (r *receiving) Read(p []byte) (int, error) {
	r.w.start()
	n, err := r.ReadCloser.Read(p)
	r.w.stop()
	return n, err
}

func (r *receiving) Close() error {
	err := r.ReadCloser.Close()
	r.w.end()
	return err
}
