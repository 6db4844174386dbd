package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/sqlite"
	"github.com/belljar/belljar/test/leak"
	"github.com/belljar/belljar/test/tier"
)

// crashPath makes this test program the process that is killed.
const crashPath = "BELLJAR_TEST_CRASH_STORE"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashPath); path != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(path))
		os.Exit(1)
	}
	if dir := os.Getenv(fullDir); dir != "" {
		if err := fillDisk(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(leak.Main(m))
}

// writeUntilKilled writes as fast as it can from eight goroutines and prints each write that the store has confirmed.
func writeUntilKilled(path string) error {
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: path})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				if err := writeOne(s, fmt.Sprint("user", w), i); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

func writeOne(s *sqlite.Store, user string, n int) error {
	ctx := context.Background()
	r := store.Run{Run: belljar.Run{ID: belljar.NewID(), UserID: user, Phase: belljar.PhaseQueued, Runtime: "native", BaseImage: "host", CreatedAt: time.Now()}}
	key := store.Key{Endpoint: "runs", UserKey: user, Key: r.ID, ObjectID: r.ID, CreatedAt: r.CreatedAt, NotBefore: r.CreatedAt}
	if _, err := s.Runs().Insert(ctx, r, &key); err != nil {
		return err
	}
	say(r.ID, r.Phase)
	r.Phase, r.StartedAt = belljar.PhaseRunning, &r.CreatedAt
	if err := s.Runs().Update(ctx, r); err != nil {
		return err
	}
	say(r.ID, r.Phase)
	if n%5 == 4 {
		return nil // the workers run until they are killed
	}
	r.Phase, r.FinishedAt, r.ExitCode = belljar.PhaseCompleted, &r.CreatedAt, new(0)
	r.ResourceUsage = &belljar.ResourceUsage{ArtifactBytes: 3}
	if err := s.Runs().Finish(ctx, r); err != nil {
		return err
	}
	say(r.ID, r.Phase)
	r.ID, r.Message, r.Log = belljar.NewID(), "added", []byte("log")
	if err := s.Runs().Add(ctx, r); err != nil {
		return err
	}
	say(r.ID, r.Phase)
	return nil
}

// say writes one line with one system call, so that no partial line is printed.
func say(id string, p belljar.Phase) { os.Stdout.WriteString(id + " " + string(p) + "\n") }

// TestKilled kills a writing process repeatedly and checks that every confirmed write is still stored.
func TestKilled(t *testing.T) {
	rounds := tier.Rounds(t, 4, 20)
	path := filepath.Join(t.TempDir(), "store.db")
	reported := map[string]belljar.Phase{}
	for round := range rounds {
		news := killedWriter(t, path)
		maps.Copy(reported, news)
		s := open(t, path)
		if round < rounds-1 { // a check of all runs takes long, so only the last round makes it
			checkReported(t, s, news)
		} else {
			checkReported(t, s, reported)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		checkFile(t, path)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	if len(reported) < rounds*5 {
		t.Errorf("only %d runs in %d rounds", len(reported), rounds)
	}
	t.Logf("%d runs in %d rounds", len(reported), rounds)
}

// killedWriter kills a writing process after a random number of lines. It returns the last phase that was printed for
// each run.
func killedWriter(t *testing.T, path string) map[string]belljar.Phase {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashPath+"="+path)
	var stderr strings.Builder
	child.Stderr = &stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	reported := map[string]belljar.Phase{}
	last := 30 + rand.IntN(400)
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == last {
			child.Process.Kill()
		}
		id, phase, ok := strings.Cut(lines.Text(), " ")
		if !ok {
			t.Errorf("half a line: %q", lines.Text())
		}
		reported[id] = belljar.Phase(phase)
	}
	child.Wait()
	if stderr.Len() > 0 {
		t.Fatalf("the writer failed: %s", stderr.String())
	}
	return reported
}

// checkReported checks that every run has at least the printed phase, and that the usage is correct.
func checkReported(t *testing.T, s *sqlite.Store, reported map[string]belljar.Phase) {
	t.Helper()
	rank := map[belljar.Phase]int{belljar.PhaseQueued: 1, belljar.PhaseRunning: 2, belljar.PhaseCompleted: 3}
	for id, phase := range reported {
		r, err := s.Runs().Get(t.Context(), id)
		if err != nil || rank[r.Phase] < rank[phase] {
			t.Errorf("run %s was reported as %s: it is %q, error %v", id, phase, r.Phase, err)
			continue
		}
		if r.Message == "added" {
			if string(r.Log) != "log" {
				t.Errorf("run %s was added with a log and has %q", id, r.Log)
			}
			continue
		}
		if _, err := s.Keys().Get(t.Context(), "runs", r.UserID, r.ID); err != nil {
			t.Errorf("key of run %s: %v", id, err)
		}
	}
	top, err := s.Users().Top(t.Context(), 100, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range top {
		_, finished, err := s.Runs().List(t.Context(), belljar.RunQuery{UserID: u.UserID, Phase: belljar.PhaseCompleted})
		if err != nil || u.ArtifactBytes != int64(3*finished) {
			t.Errorf("%s has %d finished runs and %d bytes, want 3 a run; error %v", u.UserID, finished, u.ArtifactBytes, err)
		}
	}
}

// checkFile runs SQLite's integrity check.
func checkFile(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var answer string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&answer); err != nil || answer != "ok" {
		t.Errorf("integrity check: %s, error %v", answer, err)
	}
}
