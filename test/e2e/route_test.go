//go:build linux

package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestEveryDocumentedRoute asks a server for all that its document lists, without a key: every route is there, whichever
// door it is of, and asks who calls unless the document says that it does not.
func TestEveryDocumentedRoute(t *testing.T) {
	s := serve(t, t.TempDir())
	var doc struct {
		Paths map[string]map[string]struct {
			Security *[]map[string]any
			Tags     []string
		}
	}
	if err := json.Unmarshal([]byte(s.text("/openapi.json")), &doc); err != nil {
		t.Fatal(err)
	}
	placeholder := regexp.MustCompile(`\{[^}]+\}`)
	doors := map[string]int{}
	for path, item := range doc.Paths {
		for method, op := range item {
			req, err := http.NewRequest(strings.ToUpper(method), s.URL+placeholder.ReplaceAllString(path, "x"), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			want := http.StatusUnauthorized
			if op.Security != nil && len(*op.Security) == 1 && len((*op.Security)[0]) == 0 {
				want = http.StatusOK
			}
			if resp.StatusCode != want {
				t.Errorf("%s %s: %d, want %d", method, path, resp.StatusCode, want)
			}
			doors[op.Tags[0]]++
		}
	}
	// S3 has eight routes; S4 has seven, and lists and deletes files besides, and streams.
	if doors["threads"] != 8 || doors["shell"] != 10 || doors["sessions"] < 12 || doors["files"] < 13 || doors["terminals"] < 4 {
		t.Errorf("documented: %v", doors)
	}
}
