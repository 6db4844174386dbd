//go:build linux

package lsp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Only a kept file can be downloaded: a link has a target, and a file that is too large a reason.
func TestArtifactsWithoutContent(t *testing.T) {
	dir := makeFolder(t, map[string]string{"x.sh": "mkdir out; echo 1 >out/a; ln -s a out/b; truncate -s 40M out/c\n"})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	run := e.run(map[string]any{"uri": "file://" + dir + "/x.sh", "capture_patterns": []string{"out/*"}})
	want := []any{
		map[string]any{"path": "out/a", "size": 2.0, "type": "application/octet-stream", "download_url": fmt.Sprintf("http://belljar.test/api/v1/sandbox/runs/%s/artifacts/out/a", run["run_id"])},
		map[string]any{"path": "out/b", "size": 0.0, "type": "application/octet-stream", "link_target": "a"},
		map[string]any{"path": "out/c", "size": float64(40 << 20), "type": "application/octet-stream", "skipped": "artifact_cap_exceeded"},
	}
	if got := e.command("tldw.sandbox.openArtifacts", nil).object(t)["items"]; !cmp.Equal(got, any(want)) {
		t.Error(cmp.Diff(any(want), got))
	}
}

// An editor without a panel and a server without a page: the log names what became of each file.
func TestArtifactsInTheLog(t *testing.T) {
	dir := makeFolder(t, map[string]string{"x.sh": "mkdir out; echo 1 >out/a; ln -s a out/b; truncate -s 40M out/c\n"})
	o := with(service(t))
	o.URL = ""
	e := start(t, o)
	e.initialize([]string{dir}, map[string]any{})
	e.command("tldw.sandbox.run", map[string]any{"uri": "file://" + dir + "/x.sh", "capture_patterns": []string{"out/*"}, "wait": true})
	e.command("tldw.sandbox.openArtifacts", nil)
	for _, want := range []string{"out/a, 2 bytes", "out/b, link to a", "out/c, not kept: artifact_cap_exceeded"} {
		if m := e.wait(func(m message) bool {
			return m.Method == "window/logMessage" && strings.Contains(string(m.Params), ": out/")
		}); m.object(t)["message"] != "Belljar: "+want {
			t.Errorf("%s, want %s", m.Params, want)
		}
	}
}
