package apitest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// CheckRefused sends requests whose arguments the service refuses. A door may not use the session, which could wake it, before the service has
// checked them.
func CheckRefused(t *testing.T, door func(engine belljar.Engine) (Door, error), routes ...Route) {
	t.Helper()
	d, err := door(refusing{t})
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(t, api.EdgeOptions{}, d)
	for _, to := range routes {
		r := httptest.NewRequest(to.Method, to.Path, strings.NewReader(to.Body))
		r.Header.Set("Authorization", "Bearer alice")
		w := recorder{httptest.NewRecorder()}
		h.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", to.Method, to.Path, w.Code, w.Body)
		}
	}
}

// refusing is [Still] with a service that refuses each list and search.
type refusing struct{ t *testing.T }

func (e refusing) As(belljar.Caller) belljar.Service { return refusingService{still{}, e.t} }

type refusingService struct {
	still
	t *testing.T
}

func (s refusingService) Files() belljar.Files { return refusingFiles{files{}, s.t} }

type refusingFiles struct {
	files
	t *testing.T
}

var errRefused = &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "refused"}

func (f refusingFiles) Stat(ctx context.Context, id, path string) (belljar.FileEntry, error) {
	f.t.Error("the session is used before the arguments are checked")
	return f.files.Stat(ctx, id, path)
}

func (f refusingFiles) List(context.Context, string, belljar.FileQuery) (belljar.FileList, error) {
	return belljar.FileList{}, errRefused
}

func (f refusingFiles) Search(context.Context, string, belljar.FileSearch) (belljar.FileMatches, error) {
	return belljar.FileMatches{}, errRefused
}
