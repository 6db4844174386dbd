//go:build linux

package lsp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/served"
)

// patience bounds what must happen, on a machine that has other things to do as well.
const patience = 10 * time.Minute

// programs are built once, and the client library installed.
type programs struct {
	belljar, node string
	missing       string // a program that is missing; "" for none
	dir           string // that the tests remove; "" for none
}

// prepared is what all tests of the package use.
var prepared = sync.OnceValues(prepare)

func TestMain(m *testing.M) {
	if err := build.Alone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if p, err := prepared(); err == nil && p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
	os.Exit(code)
}

func prepare() (programs, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return programs{missing: "node"}, nil
	}
	if _, err := os.Stat("node_modules/vscode-languageserver-protocol"); err != nil {
		npm, err := exec.LookPath("npm")
		if err != nil {
			return programs{missing: "npm"}, nil
		}
		if out, err := exec.Command(npm, "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts").CombinedOutput(); err != nil {
			return programs{}, fmt.Errorf("npm ci: %w\n%s", err, out)
		}
	}
	dir, err := os.MkdirTemp("", "belljar-lsp-")
	if err != nil {
		return programs{}, err
	}
	built, err := build.Into(dir)
	return programs{belljar: built.Belljar, node: node, dir: dir}, err
}

func ready(t testing.TB) programs {
	t.Helper()
	p, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	if p.missing != "" {
		need.Missing(t, "%s", p.missing)
	}
	return p
}

// check runs the client, makes each of its checks a test, and returns what the last one said.
func (p programs) check(t *testing.T, env []string, args ...string) (said string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, p.node, append([]string{"check.mjs", p.belljar}, args...)...)
	cmd.Env = append(append(os.Environ(), "SANDBOX_IMAGE_PULL=never"), env...)
	cmd.WaitDelay = time.Minute
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	checks := 0
	for line := range bytes.Lines(out) {
		var c struct {
			Name, Why, Said string
			OK              bool
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		checks++
		t.Run(c.Name, func(t *testing.T) {
			if !c.OK {
				t.Error(c.Why)
			}
		})
		said = c.Said
	}
	if err != nil || checks == 0 {
		t.Errorf("%d checks, %v\n%s", checks, err, &problems)
	}
	return said
}

// No server is needed.
func TestAlone(t *testing.T) {
	p := ready(t)
	p.check(t, nil)
}

// With a server the sandboxes are the server's, and its audit trail knows where the runs come from.
func TestWithServer(t *testing.T) {
	p := ready(t)
	s := served.Start(t, p.belljar)
	p.check(t, []string{"BELLJAR_API_KEY=" + s.Key}, "--server", s.URL)
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

// The transcripts in testdata have a comment, then files of the folder (below folder/), and by turns messages that an editor sends and
// those that it must get. An expected object may leave fields out, and a text that begins with ~ is a regular expression. Messages that
// are not expected are passed over. FOLDER stands for the folder's URI.
func TestTranscripts(t *testing.T) {
	p := ready(t)
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			folder, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(p.belljar, "lsp")
			cmd.Dir = folder // as some editors do, so that its files must not be taken for settings
			cmd.Env = append(os.Environ(), "SANDBOX_IMAGE_PULL=never", "XDG_CONFIG_HOME="+t.TempDir())
			var said bytes.Buffer
			cmd.Stderr = &said
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
			late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // fails if it has ended
			defer late.Stop()
			ended := make(chan error, 1)
			defer func() {
				in.Close()
				go func() {
					_, _ = io.Copy(io.Discard, out) // what it still sends
					ended <- cmd.Wait()
				}()
				err := <-ended
				if t.Failed() {
					t.Logf("it ended with %v and said\n%s", err, &said)
				}
			}()
			reader := bufio.NewReader(out)
			for _, f := range archive.Files {
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
}

// await reads messages until one has all that is expected.
func await(t *testing.T, in *bufio.Reader, line string) {
	t.Helper()
	var want any
	if err := json.Unmarshal([]byte(line), &want); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
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
		var got any
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		why := within(want, got, "")
		if why == "" {
			return
		}
		near = append(near, string(body)+"\n  "+why)
		w, _ := want.(map[string]any)
		g, _ := got.(map[string]any)
		if w["id"] != nil && w["id"] == g["id"] && g["method"] == nil {
			t.Fatalf("want %s\ngot  %s\n%s", line, body, why)
		}
	}
}

// within returns the place where got differs from want; "" if got has all that want has.
func within(want, got any, at string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return at + " is no object"
		}
		for name, value := range w {
			if _, has := g[name]; !has {
				return at + "." + name + " is missing"
			}
			if why := within(value, g[name], at+"."+name); why != "" {
				return why
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return at + " is no list of that length"
		}
		for i := range w {
			if why := within(w[i], g[i], fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
		return ""
	case string:
		if pattern, ok := strings.CutPrefix(w, "~"); ok {
			if text, ok := got.(string); !ok || !regexp.MustCompile(pattern).MatchString(text) {
				return fmt.Sprintf("%s is %q, and does not match", at, got)
			}
			return ""
		}
	}
	if want != got {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}
