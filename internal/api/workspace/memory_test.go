package workspace_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	door "github.com/belljar/belljar/internal/api/workspace"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/workspace/sandbox"
	"github.com/belljar/belljar/test/apitest"
)

// Trees, files and searches reserve memory neither while their session wakes nor while a slow client reads them.
func TestAnswersReserveMemoryBriefly(t *testing.T) {
	const in = "/workspace/" + apitest.ID + "/api/"
	no := func(*http.Request) bool { return false }
	apitest.CheckMemory(t, func(engine belljar.Engine, bodies *api.Shares) (apitest.Door, error) {
		return door.New(door.Options{
			Source: &sandbox.Source{Engine: engine}, Auth: apitest.Callers(), Sockets: apitest.Callers(), Secret: []byte(strings.Repeat("s", 32)),
			Templates: door.Templates{}, TokenTTL: time.Minute, ChatLifetime: time.Minute, Bodies: bodies, Events: event.Sinks{}, Logger: slog.New(slog.DiscardHandler),
			Origin: no, Secure: no, OriginAllowed: no, Connect: func(*http.Request) error { return nil },
		})
	}, []apitest.Route{
		{Method: "GET", Path: in + "tree"}, {Method: "GET", Path: in + "file?path=a.txt"}, {Method: "GET", Path: in + "search?q=a*"},
		{Method: "GET", Path: in + "search?content=text"},
	}...)
}
