//go:build linux

package apitest

import (
	"net/http"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/api"
)

// streaming is a door whose answer ends with the connection.
type streaming struct{}

func (streaming) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
}

// A test that leaves the body of an answer unread ends.
func TestUnreadAnswer(t *testing.T) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.Run("test", func(t *testing.T) {
			server := Serve(t, api.EdgeOptions{}, streaming{})
			if _, err := server.Client().Get(server.URL); err != nil {
				t.Error(err)
			}
		})
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the server waits for the client")
	}
}
