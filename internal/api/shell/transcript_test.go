//go:build linux

package shell_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/belljar/belljar/test/transcript"
)

// TestTranscripts replays the transcripts in testdata: requests of alice, each followed by the expected response: its status
// and JSON that the body must contain, as [transcript.Pattern] defines it. $id is the session.
func TestTranscripts(t *testing.T) {
	transcript.Each(t, func(t *testing.T, parts []txtar.File) {
		w := newWorld(t)
		id := ""
		if len(parts)%2 != 0 {
			t.Fatal("the last request has no answer")
		}
		for i := 0; i < len(parts); i += 2 {
			line, body, _ := strings.Cut(string(parts[i].Data), "\n")
			method, path, _ := strings.Cut(strings.ReplaceAll(line, "$id", id), " ")
			a := w.send("alice", method, path, body)
			status, want, _ := strings.Cut(string(parts[i+1].Data), "\n")
			if strconv.Itoa(a.status) != strings.TrimSpace(status) {
				t.Fatalf("%s answers %d, want %s: %s", line, a.status, status, a.raw)
			}
			if made, ok := a.body["id"].(string); ok {
				id = made
			}
			want = strings.ReplaceAll(want, "$id", id)
			if strings.HasPrefix(want, "event") || strings.HasPrefix(want, "id:") {
				want, _, _ = strings.Cut(want, "\n\n") // prose follows
				if !strings.Contains(a.raw, strings.TrimSpace(want)) {
					t.Errorf("%s\n%s\nhas not\n%s", line, a.raw, want)
				}
				continue
			}
			if at := (transcript.Pattern{}).Differs([]byte(a.raw), []byte(want)); at != "" {
				t.Errorf("%s: %s\nin %s", line, at, a.raw)
			}
		}
	})
}
