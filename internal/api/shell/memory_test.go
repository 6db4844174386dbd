package shell_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/shell"
	"github.com/belljar/belljar/test/apitest"
)

// A list of files reserves memory neither while its session wakes nor while a slow client reads it.
func TestAnswersReserveMemoryBriefly(t *testing.T) {
	apitest.CheckMemory(t, func(engine belljar.Engine, bodies *api.Shares) (apitest.Door, error) {
		return shell.New(shell.Options{Engine: engine, Auth: apitest.Callers(), Bodies: bodies})
	}, apitest.Route{Method: "GET", Path: "/v1/sessions/" + apitest.ID + "/fs/list"})
}

// The list of sessions counts as one of a user's large lists, of all doors, until it is encoded.
func TestListCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := api.ListShares()
		d, err := shell.New(shell.Options{Engine: apitest.Still{}, Auth: apitest.Callers(), Lists: lists})
		if err != nil {
			t.Fatal(err)
		}
		h := apitest.Handler(t, api.EdgeOptions{}, d)
		list := func() *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "/v1/sessions", nil)
			r.Header.Set("Authorization", "Bearer alice")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		for range 3 {
			release, err := lists.Take(t.Context(), "alice", 1)
			if err != nil {
				t.Fatal(err)
			}
			if w := list(); w.Code != http.StatusOK {
				t.Errorf("the second: %d %s", w.Code, w.Body)
			}
			release()
		}
		release, err := lists.Take(t.Context(), "alice", 2)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if w := list(); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "too many large lists are being read at once") {
			t.Errorf("the third: %d %s", w.Code, w.Body)
		}
	})
}

// A list with invalid arguments does not wake its session.
func TestRefusedBeforeTheSessionIsUsed(t *testing.T) {
	apitest.CheckRefused(t, func(engine belljar.Engine) (apitest.Door, error) {
		return shell.New(shell.Options{Engine: engine, Auth: apitest.Callers()})
	}, apitest.Route{Method: "GET", Path: "/v1/sessions/" + apitest.ID + "/fs/list?path=../x"})
}
