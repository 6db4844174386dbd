//go:build linux

package daemon_test

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/test/program"
	"github.com/belljar/belljar/test/sockdir"
)

// TestLogReaderGone: a server whose log has no reader, such as after a restart of the journal, continues to serve.
func TestLogReaderGone(t *testing.T) {
	program.NeedNative(t)
	cmd := exec.CommandContext(t.Context(), "belljar", "serve", "--json", "--listen", "127.0.0.1:0", "--data", sockdir.New(t), "--set", "pool_size=0")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no sandboxes
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct {
		URL    string `json:"url"`
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{URL: ready.URL, APIKey: ready.APIKey, Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 { // each writes a line to the log
		if _, err := c.Sessions().List(t.Context(), belljar.SessionQuery{}); err != nil {
			t.Fatal(err)
		}
	}
}
