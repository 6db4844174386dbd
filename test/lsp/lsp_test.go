//go:build linux

package lsp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/belljar/belljar/test/npm"
	"github.com/belljar/belljar/test/served"
	"github.com/belljar/belljar/test/transcript"
)

func TestMain(m *testing.M) { npm.Main(m, "vscode-languageserver-protocol") }

// The scenario works without a server.
func TestAlone(t *testing.T) {
	p := npm.Ready(t)
	p.Check(t, nil, p.Belljar)
}

// With a server the sandboxes are the server's, and its audit trail names the source of the runs.
func TestWithServer(t *testing.T) {
	p := npm.Ready(t)
	s := served.Start(t, p.Belljar)
	p.Check(t, []string{"BELLJAR_API_KEY=" + s.Key}, p.Belljar, "--server", s.URL)
	trails, err := filepath.Glob(filepath.Join(s.Data, "audit", "*"))
	if err != nil || len(trails) == 0 {
		t.Fatal(err, trails)
	}
	runs := 0
	for _, trail := range trails {
		raw, err := os.ReadFile(trail)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, `"sandbox.run.`) {
				if runs++; !strings.Contains(line, `"source":"IDE"`) {
					t.Errorf("the trail has %s", line)
				}
			}
		}
	}
	if runs == 0 {
		t.Error("the trail has no run")
	}
}

// The transcripts in testdata have a comment, then files of the folder (below folder/), and alternately messages that an editor sends and those
// that it must get, as [transcript.Pattern] defines them. Unexpected messages are skipped. FOLDER is the folder's URI.
func TestTranscripts(t *testing.T) {
	p := npm.Ready(t)
	transcript.Each(t, func(t *testing.T, parts []txtar.File) {
		folder, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(p.Belljar, "lsp")
		cmd.Dir = folder // as some editors do; its files must not be read as settings
		cmd.Env = append(os.Environ(), "SANDBOX_IMAGE_PULL=never", "XDG_CONFIG_HOME="+t.TempDir())
		var output bytes.Buffer
		cmd.Stderr = &output
		in, err := cmd.StdinPipe()
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
		late := time.AfterFunc(npm.Patience, func() { _ = cmd.Process.Kill() }) // fails if it has ended
		defer late.Stop()
		ended := make(chan error, 1)
		defer func() {
			in.Close()
			go func() {
				_, _ = io.Copy(io.Discard, out) // the remaining messages
				ended <- cmd.Wait()
			}()
			err := <-ended
			if t.Failed() {
				t.Logf("it ended with %v and printed\n%s", err, &output)
			}
		}()
		reader := bufio.NewReader(out)
		for _, f := range parts {
			if name, ok := strings.CutPrefix(f.Name, "folder/"); ok {
				name = filepath.Join(folder, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, f.Data, 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			for line := range strings.Lines(string(f.Data)) {
				line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "FOLDER", "file://"+folder)
				switch {
				case strings.TrimSpace(line) == "":
				case f.Name == "send":
					if _, err := fmt.Fprintf(in, "Content-Length: %d\r\n\r\n%s", len(line), line); err != nil {
						t.Fatal(err)
					}
				default:
					await(t, reader, line)
				}
			}
		}
	})
}

// await reads messages until one matches the expected one.
func await(t *testing.T, in *bufio.Reader, line string) {
	t.Helper()
	var near []string
	for {
		head, err := textproto.NewReader(in).ReadMIMEHeader()
		if err != nil {
			t.Fatalf("the server ended in place of %s\nbefore came\n%s", line, strings.Join(near, "\n"))
		}
		size, err := strconv.Atoi(head.Get("Content-Length"))
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(in, body); err != nil {
			t.Fatal(err)
		}
		why := transcript.Pattern{}.Differs(body, []byte(line))
		if why == "" {
			return
		}
		near = append(near, string(body)+"\n  "+why)
		var got, want struct {
			ID     any
			Method string
		}
		if err := errors.Join(json.Unmarshal(body, &got), json.Unmarshal([]byte(line), &want)); err != nil {
			t.Fatal(err)
		}
		if want.ID != nil && want.ID == got.ID && got.Method == "" {
			t.Fatalf("want %s\ngot  %s\n%s", line, body, why)
		}
	}
}
