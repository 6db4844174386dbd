//go:build linux

package workspace_test

import (
	"encoding/json"
	"testing"
)

// Each link to a folder is one in the tree, however many there are.
func TestTreeOfLinks(t *testing.T) {
	w := newWorld(t, sources()[0])
	w.sh(`mkdir src many; cd many; for i in $(seq 70); do ln -s ../src $i; done; ln -s ../nowhere broken`)
	var tree struct {
		Entries []struct {
			Name string
			Dir  bool `json:"is_dir"`
		}
		Truncated bool
	}
	if err := json.Unmarshal([]byte(w.ask(w.key, "GET", "/api/tree?path=many", "").body), &tree); err != nil {
		t.Fatal(err)
	}
	if len(tree.Entries) != 71 || tree.Truncated {
		t.Fatalf("%+v", tree)
	}
	for _, e := range tree.Entries {
		if e.Dir == (e.Name == "broken") {
			t.Errorf("%+v", e)
		}
	}
}
