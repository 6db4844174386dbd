//go:build linux

package gvisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A process that finds no sandbox keeps removing the agent's file; a process that makes a sandbox still gets the file.
func TestAgentFileIsRemovedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	text := bytes.Repeat([]byte("agent"), 1000)
	a, err := newAgentFile(dir, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var remover sync.WaitGroup
	remover.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				removeAgentFiles(dir, "")
			}
		}
	})
	for i := range 200 {
		folder := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		path, err := a.in(folder)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	close(stop)
	remover.Wait()
}

// The agent of a new version replaces that of the old version, whose sandboxes keep their own.
func TestAgentFileOfNextVersion(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"one", "two"} {
		a, err := newAgentFile(dir, strings.NewReader(version))
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(dir, version)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := a.in(folder); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, agentPrefix+"*")); err != nil || len(left) != 1 || left[0] != a.path {
			t.Errorf("with %s: %q, %v", version, left, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "one", ownAgent)); err != nil || string(got) != "one" {
		t.Errorf("a sandbox of the version before shows %q, %v", got, err)
	}
}
