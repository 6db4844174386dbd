package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
)

func TestDataIsLocked(t *testing.T) {
	use := func(data, records string) (closed func() error, err error) {
		d, err := openData(data)
		if err != nil {
			return nil, err
		}
		s := &server{log: slog.New(slog.DiscardHandler)}
		s.closers = append(s.closers, d.Close)
		_, err = s.openStore(t.Context(), &config.Config{StoreDBPath: records}, d)
		return s.Close, err
	}
	if path := os.Getenv("BELLJAR_TEST_DATA"); path != "" { // the other daemon
		if _, err := use(path, os.Getenv("BELLJAR_TEST_STORE")); err != nil {
			fmt.Print(belljar.CodeOf(err), " ", err)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "a", "b")
	records := filepath.Join(t.TempDir(), "c.db")
	closed, err := use(path, records)
	if err != nil {
		t.Fatal(err)
	}
	other := func(data string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestDataIsLocked$")
		cmd.Env = append(os.Environ(), "BELLJAR_TEST_DATA="+data, "BELLJAR_TEST_STORE="+records)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("the other daemon: %v", err)
		}
		return string(out)
	}
	for data, what := range map[string]string{path: "data folder " + path, t.TempDir(): "store " + records} {
		if got := other(data); !strings.HasPrefix(got, string(belljar.CodeConflict)) || !strings.Contains(got, what) {
			t.Errorf("a second daemon: %q, want a conflict about the %s", got, what)
		}
	}
	if err := closed(); err != nil {
		t.Fatal(err)
	}
	if got := other(path); !strings.HasPrefix(got, "PASS") {
		t.Errorf("after the first has ended: %q", got)
	}
}

func TestSecretsAreMadeOnceAndKept(t *testing.T) {
	path := t.TempDir()
	for _, left := range []string{".new-1", ".space-1", ".belljar-upload-1", "belljar-upload-1", "belljar-snapshot-1", "belljar-git-1"} { // left by a killed process
		if err := os.WriteFile(filepath.Join(path, left), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := openData(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if left, err := filepath.Glob(d.in("*-1")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	first, made, err := d.secret("key", newKey)
	if err != nil || !made || len(first) < 40 {
		t.Fatalf("first: %q %v %v", first, made, err)
	}
	if err := os.Chmod(d.in("key"), 0o644); err != nil { // a file from a backup may have this mode
		t.Fatal(err)
	}
	second, made, err := d.secret("key", newKey)
	if err != nil || made || second != first {
		t.Errorf("second: %q %v %v, want %q", second, made, err, first)
	}
	info, err := os.Stat(d.in("key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode: %v %v", info, err)
	}
	if err := os.WriteFile(d.in("empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, made, err := d.secret("empty", newKey); err != nil || !made || got == "" {
		t.Errorf("an empty file, as a full disk leaves it: %q %v %v", got, made, err)
	}
}

// If the store is missing, for example on a disk that is not mounted, a start would remove the data of all its
// runs.
func TestStoreIsMissing(t *testing.T) {
	d, err := openData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	open := func() error { return useStore(t, d, &config.Config{}) }
	artifact := d.in("artifacts", "alice", "run", "0")
	if err := os.MkdirAll(filepath.Dir(artifact), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(d.in("logs", "2026-01-02", "03"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil { // empty folders of swept runs may stay
		t.Errorf("with folders alone: %v", err)
	}
	if err := os.Remove(d.in("belljar.db")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(artifact, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(); belljar.CodeOf(err) != belljar.CodeConflict || !strings.Contains(err.Error(), d.in("artifacts")) {
		t.Errorf("with an artifact: %v", err)
	}
	if _, err := os.Stat(d.in("belljar.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a store was made: %v", err)
	}
	if err := os.WriteFile(d.in("belljar.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(); belljar.CodeOf(err) != belljar.CodeConflict || !strings.Contains(err.Error(), "belljar.db is empty") {
		t.Errorf("with an empty file: %v", err)
	}
}

// useStore opens a store and closes it.
func useStore(t *testing.T, d *dataDir, cfg *config.Config) error {
	t.Helper()
	s := &server{log: slog.New(slog.DiscardHandler)}
	_, err := s.openStore(t.Context(), cfg, d)
	return errors.Join(err, s.Close())
}

// A server with its records in memory would remove the data of a SQLite store, but starts again in a folder of its own.
func TestMemoryInTheFolderOfAStore(t *testing.T) {
	d, err := openData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.MkdirAll(d.in("logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.in("logs", "1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := useStore(t, d, &config.Config{Store: "memory"}); err != nil {
		t.Errorf("after another in memory: %v", err)
	}
	if err := os.WriteFile(d.in("belljar.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := useStore(t, d, &config.Config{Store: "memory"}); belljar.CodeOf(err) != belljar.CodeConflict || !strings.Contains(err.Error(), d.in("belljar.db")) {
		t.Errorf("with a store: %v", err)
	}
}

func TestUnusableData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openData(file); err == nil || belljar.HintOf(err) == "" {
		t.Errorf("a file as the folder: %v", err)
	}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := unusable("/data", &fs.PathError{Op: "write", Path: "/data/x", Err: full})
		if hint := belljar.HintOf(err); !strings.HasPrefix(hint, "free space") {
			t.Errorf("a full disk: %v, hint %q", err, hint)
		}
	}
}
