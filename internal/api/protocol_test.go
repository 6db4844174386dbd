package api_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/api"
)

func TestHTTP2(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{MaxBody: 100})
	s := httptest.NewUnstartedServer(edge.Wrap(reader(0)))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	for size, status := range map[int]int{100: 200, 101: 413} {
		answer, err := s.Client().Post(s.URL, "text/plain", strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != status || answer.ProtoMajor != 2 {
			t.Errorf("%d bytes: %s %s %s, %v", size, answer.Proto, answer.Status, text, err)
		}
	}
}
