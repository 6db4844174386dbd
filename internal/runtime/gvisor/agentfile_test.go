//go:build linux

package gvisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
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
				removeAgentFiles(dir)
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
