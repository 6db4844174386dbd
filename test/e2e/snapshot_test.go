//go:build linux

package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/test/tier"
)

// hostileFiles are files of all kinds, in directories of all modes, and manifest describes them.
const (
	hostileFiles = `
mkdir -p d/e closed; echo text >d/e/file; : >empty; chmod 640 d/e/file; ln d/e/file 'further name'; ln -s d/e/file link; ln -s /usr/bin/env away
printf x >"$(printf 'a\nb\\c\377')"; printf y >./-rf; printf z >"$(printf 'n%.0s' $(seq 255))"; truncate -s 3M hole; printf end >>hole
touch -d '2001-02-03 04:05:06.123456789' d/e/file d; touch -h -d '2001-02-03 04:05:06.5' link; mkfifo pipe; echo s >closed/s; chmod 500 closed`
	manifest = `find . -mindepth 1 -path ./.tmp -prune -o ! -type p -printf '%y %m %n %s %l ' \( -type l -o -type f -o -type d -printf '%T@ ' \) -printf '%p\0' |
sed -z 's/^d \([0-9]*\) [0-9]* [0-9]* /d \1 /' | sort -z | tr '\0' '\n'; find . -path ./.tmp -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum
[ $(stat -c %b hole) -lt 100 ] || stat hole`
)

// TestSnapshotThroughKills kills a server while it saves, restores and removes snapshots. Every listed snapshot is complete, and the
// saved session continues.
func TestSnapshotThroughKills(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serve(t, data)
	status, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.1", "base_image": "host", "resources": map[string]any{"workspace_mb": 64}})
	id, _ := session["session_id"].(string)
	if status/100 != 2 {
		t.Fatalf("create: %d %v", status, session)
	}
	in := func(s *server, id, script string) string {
		t.Helper()
		body := map[string]any{"spec_version": "1.1", "session_id": id, "command": []string{"sh", "-c", script}, "timeout_sec": longTime}
		status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", body)
		if status != http.StatusOK || run["phase"] != "completed" {
			t.Fatalf("%s: %d %v", script, status, run)
		}
		out, _ := run["stdout"].(string)
		return out
	}
	in(s, id, "for i in $(seq 300); do head -c 20000 /dev/urandom >f$i; done; cat f[0-9]* | sha256sum >sum"+hostileFiles)
	// A session that begins with so many files reads them through an overlay where possible. It outlives the server like any other.
	roomy := func(snapshot any) map[string]any {
		return map[string]any{"spec_version": "1.1", "base_image": "host", "snapshot": snapshot, "resources": map[string]any{"workspace_mb": 64}}
	}
	status, first := s.ask(http.MethodPost, api+"/sessions/"+id+"/snapshots", map[string]any{})
	if status != http.StatusOK {
		t.Fatalf("save: %d %v", status, first)
	}
	status, restored := s.ask(http.MethodPost, api+"/sessions", roomy(first["snapshot_id"]))
	if status/100 != 2 {
		t.Fatalf("restore: %d %v", status, restored)
	}
	copied := fmt.Sprint(restored["session_id"])
	if want, got := in(s, id, manifest), in(s, copied, manifest); got != want {
		t.Errorf("the copy differs:\n%s\n%s", got, want)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(data, &st); err != nil {
		t.Fatal(err)
	}
	if got := in(s, copied, "stat -f -c %T ."); os.Geteuid() == 0 && st.Type == unix.EXT4_SUPER_MAGIC && got != "overlayfs\n" {
		t.Errorf("as root, the copy is on %s", got)
	}
	// The snapshot is removed, and the session still has its files.
	if status, answer := s.ask(http.MethodDelete, api+"/snapshots/"+fmt.Sprint(first["snapshot_id"]), nil); status/100 != 2 {
		t.Fatalf("remove: %d %v", status, answer)
	}
	in(s, copied, "mv d moved; echo more >>'further name'; rm f1; cat f[0-9]* | sha256sum >mine")
	for round := range tier.Rounds(t, 2, 40) {
		in(s, id, fmt.Sprintf("echo %d >round", round))
		done := make(chan struct{})
		go func(s *server) {
			defer close(done)
			for { // until it is killed
				_, made, err := s.try(http.MethodPost, api+"/sessions/"+id+"/snapshots", map[string]any{})
				if err != nil {
					return
				}
				if _, copied, err := s.try(http.MethodPost, api+"/sessions", roomy(made["snapshot_id"])); err == nil {
					_, _, _ = s.try(http.MethodDelete, api+"/sessions/"+fmt.Sprint(copied["session_id"]), nil)
				}
				if round%2 == 1 {
					_, _, _ = s.try(http.MethodDelete, api+"/snapshots/"+fmt.Sprint(made["snapshot_id"]), nil)
				}
			}
		}(s)
		time.Sleep(rand.N(250 * time.Millisecond))
		s.kill()
		<-done
		s = serve(t, data)
		status, page := s.ask(http.MethodGet, api+"/snapshots?limit=200", nil)
		list, _ := page["items"].([]any)
		if status != http.StatusOK {
			t.Fatalf("list: %d %v", status, page)
		}
		for _, item := range list {
			x, _ := item.(map[string]any)
			body, err := s.open(api + "/snapshots/" + fmt.Sprint(x["snapshot_id"]) + "/archive")
			if err != nil {
				t.Fatalf("round %d: %v: %v", round, x, err)
			}
			sum := sha256.New()
			_, err = io.Copy(sum, body)
			body.Close()
			if got := fmt.Sprintf("sha256:%x", sum.Sum(nil)); err != nil || got != x["digest"] {
				t.Errorf("round %d: %v is %s, %v", round, x, got, err)
			}
		}
		if got := in(s, copied, "cat f[0-9]* | sha256sum | cmp - mine && cat moved/e/file"); got != "text\nmore\n" {
			t.Errorf("round %d: the copy has %q", round, got)
		}
		if got := in(s, id, "cat f[0-9]* | sha256sum | cmp - sum && cat round"); got != fmt.Sprintf("%d\n", round) {
			t.Errorf("round %d: the session has %q", round, got)
		}
	}
	status, made := s.ask(http.MethodPost, api+"/sessions/"+id+"/snapshots", map[string]any{})
	if status != http.StatusOK || made["consistent"] != true {
		t.Fatalf("%d %v", status, made)
	}
	_, page := s.ask(http.MethodGet, api+"/snapshots?limit=200", nil)
	list, _ := page["items"].([]any)
	for _, item := range list {
		x, _ := item.(map[string]any)
		if status, answer := s.ask(http.MethodDelete, api+"/snapshots/"+fmt.Sprint(x["snapshot_id"]), nil); status/100 != 2 {
			t.Errorf("remove: %d %v", status, answer)
		}
	}
	_, page = s.ask(http.MethodGet, api+"/sessions?limit=200", nil) // those of killed rounds, too
	list, _ = page["items"].([]any)
	for _, item := range list {
		x, _ := item.(map[string]any)
		if status, answer := s.ask(http.MethodDelete, api+"/sessions/"+fmt.Sprint(x["session_id"]), nil); status/100 != 2 {
			t.Errorf("%d %v", status, answer)
		}
	}
	left := []string{""}
	for until := time.Now().Add(patience); len(left) > 0 && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		left, _ = filepath.Glob(filepath.Join(data, "snapshots", "*"))
		left = slices.DeleteFunc(left, func(name string) bool { return strings.HasSuffix(name, ".new") }) // of a kill, for an hour
	}
	temporary, _ := filepath.Glob(filepath.Join(data, "belljar-snapshot-*"))
	if left = append(left, temporary...); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
