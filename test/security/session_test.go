//go:build linux

package security

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/test/peer"
)

// server is a lane's server, for attacks that need sessions or ready sandboxes. All such trials of the lane share it.
type server struct {
	once sync.Once
	turn sync.Mutex // held by the trial that uses it
	url  string
	peer *peer.Peer // a peer that its sandboxes may reach
}

// serving returns the lane's server, and starts it for the first trial.
func (l *lane) serving(t *testing.T) *server {
	t.Helper()
	l.server.once.Do(func() {
		p := peer.Start(l.t, "api.test", "pinned.test", "other.test")
		tr := l.trial(l.t)
		var weak []string
		for i, flag := range l.flags {
			if flag == "--allow-weak" {
				weak = append(weak, l.flags[i+1])
			}
		}
		tr.env = append(tr.env, "SANDBOX_API_KEY="+readyKey, "SANDBOX_LOG_LEVEL=warn", "SANDBOX_END_SESSIONS=true", "SANDBOX_ALLOW_WEAK="+strings.Join(weak, ","),
			"SANDBOX_EGRESS_ALLOW=*", "SANDBOX_EGRESS_PRIVATE=true", "SANDBOX_EGRESS_RESOLVER="+p.Resolver, "SANDBOX_POOL_SIZE=1", "SANDBOX_POOL_MAX=4")
		stdout, stderr := newLines()
		tr.standing = true
		data, err := os.MkdirTemp("", "belljar-server-") // outside the trial's folder, because the stored data of a run has its name
		if err == nil && l.uid != 0 {
			err = os.Chown(data, l.uid, l.uid)
		}
		if err != nil {
			l.t.Error(err)
			return
		}
		l.t.Cleanup(func() { os.RemoveAll(data) })
		args := slices.Concat([]string{"serve", "--listen", "127.0.0.1:0", "--data", data}, l.serve)
		process := tr.start(context.Background(), args, nil, io.Discard, stderr)
		l.t.Cleanup(func() {
			if err := process.end(); err != nil {
				l.t.Errorf("the lane's server: %v", err)
			}
			if s := tr.account; s.Status != 0 || len(s.Survivors) > 0 {
				l.t.Errorf("the lane's server ended with %d, and left %q", s.Status, s.Survivors)
			}
		})
		select {
		case url := <-stdout:
			client := l.trial(l.t)
			client.server = url
			if l.engine == nil && l.image != "" {
				if _, err := client.say("image", "import", "--name", imageName(l.image), client.imageFile(l.image)); err != nil {
					l.t.Error(err)
					return
				}
			}
			l.server.url, l.server.peer = url, p
		case <-time.After(runTime):
			l.t.Error("the lane's server does not serve")
		}
	})
	if l.server.url == "" {
		t.Fatal("the lane has no server")
	}
	l.server.turn.Lock() // other trials would take the ready sandboxes
	t.Cleanup(l.server.turn.Unlock)
	return &l.server
}

// newLines returns a writer for a server's output, and a channel that receives the server's address.
func newLines() (url <-chan string, w io.Writer) {
	found := make(chan string, 1)
	return found, &lines{found: found}
}

type lines struct {
	found   chan<- string
	printed bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.printed.Write(p)
	if _, rest, ok := strings.Cut(l.printed.String(), "serving on "); ok && l.found != nil {
		if url, _, ok := strings.Cut(rest, "\n"); ok {
			l.found <- strings.TrimSpace(url)
			l.found = nil
		}
	}
	return len(p), nil
}

// say runs a command of belljar to its end and returns its output.
func (tr *trial) say(args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	if err := tr.start(tr.t.Context(), args, nil, &stdout, &stderr).wait(); err != nil {
		return "", err
	}
	if tr.account.Status != 0 {
		return "", fmt.Errorf("belljar %q: status %d: %s", args, tr.account.Status, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// opens puts the trial's run into a new session with these flags.
func (tr *trial) opens(s *server, flags ...string) (end func()) {
	tr.t.Helper()
	tr.server = s.url
	id, err := tr.say(slices.Concat([]string{"session", "create", "--workspace-exec"}, tr.where(), flags)...)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.session = id
	return func() { tr.closes(id) }
}

// closes ends a session and checks that nothing of it is left.
func (tr *trial) closes(id string) {
	tr.t.Helper()
	if _, err := tr.say("session", "close", id); err != nil {
		tr.t.Error(err)
	}
	for _, path := range tr.traces(id) {
		tr.t.Errorf("left of the session: %s", path)
	}
}

// narrowed puts the run into a session whose rules become narrower when it requests /narrow from the peer, and allow nothing after
// /close.
func narrowed(t *testing.T, tr *trial) func(outcome) {
	s := tr.lane.serving(t)
	end := tr.opens(s, "--allow", s.peer.Address, "--allow", "api.test", "--allow", "pinned.test")
	other := tr.lane.trial(t) // it shares no account with the run
	other.server = s.url
	s.peer.Handle("/narrow/"+tr.session, func(w http.ResponseWriter, _ *http.Request) {
		_, err := other.say("session", "network", tr.session, "--allow", "api.test", "--allow", s.peer.Address)
		fmt.Fprintf(w, "narrowed: %v\n", err)
	})
	s.peer.Handle("/close/"+tr.session, func(w http.ResponseWriter, _ *http.Request) {
		_, err := other.say("session", "network", tr.session, "--deny-all")
		fmt.Fprintf(w, "closed: %v\n", err)
	})
	tr.extra = append(tr.extra, "--env", "LANE_SESSION="+tr.session, "--env", "LANE_PEER="+s.peer.Address)
	return func(got outcome) {
		if hosts := fmt.Sprint(got.Egress); !strings.Contains(hosts, "policy_changed") {
			t.Errorf("control: no connection was cut: %s", hosts)
		}
		end()
	}
}

// blank gives the run a sandbox from the pool, after another run has had one like it with rules.
func blank(t *testing.T, tr *trial) func(outcome) {
	s := tr.lane.serving(t)
	other := tr.lane.trial(t)
	other.server = s.url
	args := slices.Concat([]string{"run", "--json", "--workspace-exec"}, other.where())
	args = append(args, "--file", built.Probe+":probe", "--allow", "api.test", "--allow", s.peer.Address, "--", "./probe", "reach", "api.test")
	pool := func(name string) int { return figure(t, s.url, "sandbox_pool_"+name+`{runtime="`+tr.lane.runtime+`"}`) }
	made := 0
	for range kept {
		// The last run makes the pool create another sandbox of its kind.
		for deadline := time.Now().Add(runTime); pool("available") < pool("size") && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
		made = pool("refill_seconds_count")
		if got := other.run(t.Context(), args); got.exit() != "0" {
			t.Errorf("control: with rules: %s", got.Stdout)
		}
	}
	for deadline := time.Now().Add(runTime); pool("refill_seconds_count") == made && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	hit := func() int { return claims(t, s.url, tr.lane.runtime, "hit") }
	tr.server = s.url
	tr.extra = append(tr.extra, "--env", "LANE_PEER="+s.peer.Address)
	hits := hit()
	return func(outcome) {
		if hit() == hits {
			t.Error("the sandbox was not ready before, which proves little")
		}
	}
}

// snapshots gives the run's session a secret, and afterwards searches for it in a snapshot and a fork of the session.
func snapshots(t *testing.T, tr *trial) func(outcome) {
	s := tr.lane.serving(t)
	value := tr.secret(t, "API_TOKEN")
	flags := tr.flags
	tr.flags = nil
	end := tr.opens(s, flags...)
	return func(outcome) {
		defer end()
		fork, err := tr.say("session", "fork", tr.session)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.closes(fork)
		id, err := tr.say("snapshot", "make", tr.session)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(tr.dir, "snapshot.tar")
		if _, err := tr.say("snapshot", "export", id, "--out", path); err != nil {
			t.Fatal(err)
		}
		names, text := unpacked(t, path)
		output, err := tr.say("session", "exec", fork, "sh", "-c", "ls -A /run/secrets 2>/dev/null; cat /run/secrets/* link copy through 2>/dev/null; env; echo end")
		if err != nil || !strings.HasSuffix(output, "end") || !slices.Contains(names, "plain") {
			t.Errorf("control: %q, %v; the snapshot has %q", output, err, names)
		}
		for _, form := range forms(value) {
			if strings.Contains(text, form) || strings.Contains(output, form) || strings.Contains(output, "API_TOKEN") {
				t.Errorf("%q is in the snapshot %v, or in the fork: %q", form, names, output)
			}
		}
	}
}

// unpacked returns the names of a tar's files, and the whole tar.
func unpacked(t *testing.T, path string) (names []string, text string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, string(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimPrefix(h.Name, "./"))
	}
}
