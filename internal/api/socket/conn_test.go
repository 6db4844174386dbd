package socket

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
	"github.com/belljar/belljar/internal/event"
)

// caller authenticates every request as ann.
type caller struct{}

func (caller) Authenticate(*http.Request) (belljar.Caller, error) {
	return belljar.Caller{ID: "ann", Role: belljar.RoleUser}, nil
}

// mute is a peer that ignores messages.
type mute struct{}

func (mute) Greet() any { return Typed{"hello"} }
func (mute) Follow(ctx context.Context, _ Emit) Verdict {
	<-ctx.Done()
	return Gone()
}
func (mute) Receive(context.Context, bool, []byte, Emit) error { return nil }
func (mute) Close()                                            {}

// Unfinished messages of one user are bounded: one more closes its connection.
func TestUnfinishedMessages(t *testing.T) {
	linetest.Serve(t, func(t *testing.T) http.Handler {
		s := New(Options{
			Auth: caller{}, OriginAllowed: func(*http.Request) bool { return true }, Kind: "test", What: "a test", MaxMessage: 16 << 20,
			Renew: 1 << 40, PingEvery: 1 << 40, TryAgain: []belljar.Code{belljar.CodeRateLimited}, Events: event.Sinks{}, Logger: slog.New(slog.DiscardHandler),
			Fail: func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) },
		})
		t.Cleanup(func() { _ = s.Close() })
		edge, err := api.NewEdge(api.EdgeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return edge.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.Serve(w, r, Route{
				Attach: func(*http.Request) (Peer, error) { return mute{}, nil },
				Failed: func(e *belljar.Error) any { return e },
			})
		}))
	}, func(t *testing.T, l *linetest.Line) {
		for i := range 3 {
			c, _, err := websocket.Dial(t.Context(), "ws://line/", &websocket.DialOptions{HTTPClient: l.Client()})
			if err != nil {
				t.Fatal(err)
			}
			defer c.CloseNow()
			if _, _, err := c.Read(t.Context()); err != nil { // the greeting
				t.Fatal(err)
			}
			m, err := c.Writer(t.Context(), websocket.MessageText)
			if err != nil {
				t.Fatal(err)
			}
			wrote := make(chan error, 1)
			go func() {
				_, err := m.Write(make([]byte, 100<<10)) // unfinished
				wrote <- err
			}()
			synctest.Wait()
			if i < 2 {
				if err := <-wrote; err != nil {
					t.Fatal(err)
				}
				continue
			}
			var closed websocket.CloseError
			_, _, err = c.Read(t.Context()) // the error
			if err == nil {
				_, _, err = c.Read(t.Context())
			}
			if !errors.As(err, &closed) || closed.Code != websocket.StatusTryAgainLater {
				t.Errorf("a third message: %v", err)
			}
			_ = c.CloseNow()
			<-wrote
		}
	})
}
