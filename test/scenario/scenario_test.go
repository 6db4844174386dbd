//go:build linux

package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/sdk"
	"github.com/belljar/belljar/test/served"
)

var built build.Programs

func TestMain(m *testing.M) {
	os.Exit(build.Main(func(_ string, p build.Programs) int {
		built = p
		return m.Run()
	}))
}

// patience limits a driver's run of the whole scenario.
const patience = 10 * time.Minute

// TestScenario makes every driver play the scenario on one server, each as a separate caller, and compares their output
// with the scenario's results, byte by byte.
func TestScenario(t *testing.T) {
	file, err := Read("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SANDBOX_CANCEL_GRACE_SECONDS", "300") // on a busy machine a program may take seconds to end after TERM
	s := served.Start(t, built.Belljar)
	drivers := map[string]func(ctx context.Context, t *testing.T, key string, w io.Writer) error{
		"go": func(ctx context.Context, t *testing.T, key string, w io.Writer) error {
			c, err := client.New(client.Options{URL: s.URL, APIKey: key})
			if err != nil {
				return err
			}
			defer c.Close()
			return play(ctx, file, viaClient{c}, w)
		},
		"cli": func(ctx context.Context, t *testing.T, key string, w io.Writer) error {
			d := &viaCommands{program: built.Belljar, env: s.Env(key), dir: t.TempDir(), known: map[string]bool{}, started: map[string]*typed{}}
			ctx, stop := context.WithCancel(ctx)
			defer d.close()
			defer stop()
			return play(ctx, file, d, w)
		},
	}
	scenario, err := filepath.Abs("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	program := func(ctx context.Context, key string, w io.Writer, dir string, more []string, words ...string) error {
		cmd := exec.CommandContext(ctx, words[0], append(words[1:], scenario)...)
		cmd.Dir, cmd.Env, cmd.Stdout = dir, append(s.Env(key), more...), w
		var output bytes.Buffer
		cmd.Stderr = &output
		cmd.WaitDelay = time.Minute
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w\n%s", err, &output)
		}
		return nil
	}
	drivers["python"] = func(ctx context.Context, t *testing.T, key string, w io.Writer) error {
		src, err := sdk.Python()
		if err != nil {
			return err
		}
		return program(ctx, key, w, filepath.Dir(src), []string{"PYTHONPATH=" + src, "PYTHONDONTWRITEBYTECODE=1"}, "/usr/bin/python3", "tests/scenario.py")
	}
	drivers["typescript"] = func(ctx context.Context, t *testing.T, key string, w io.Writer) error {
		dir, err := sdk.TypeScript(ctx, t.TempDir(), "pretest")
		if err != nil {
			return err
		}
		return program(ctx, key, w, dir, nil, "node", "build/test/scenario.js")
	}
	t.Run("drivers", func(t *testing.T) { // so that the server outlives them
		for name, drive := range drivers {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, stop := context.WithTimeout(t.Context(), patience)
				defer stop()
				var printed bytes.Buffer
				if err := drive(ctx, t, s.User(t, name), &printed); err != nil {
					t.Errorf("the driver fails: %v\n%s", err, s.Log())
				}
				compare(t, file, name, printed.Bytes())
			})
		}
	})
}

// compare compares a driver's output with the scenario's results.
func compare(t *testing.T, file File, driver string, printed []byte) {
	t.Helper()
	lines := json.NewDecoder(bytes.NewReader(printed))
	for _, step := range file.Steps {
		if _, except := step.Except[driver]; except {
			continue
		}
		var line struct {
			Step   string          `json:"step"`
			Result json.RawMessage `json:"result"`
		}
		if err := lines.Decode(&line); err != nil {
			t.Errorf("nothing is printed of %q: %v", step.Name, err)
			return
		}
		if line.Step != step.Name {
			t.Errorf("%q is printed in place of %q", line.Step, step.Name)
			return
		}
		if got, want := plain(t, line.Result), plain(t, step.Want); got != want {
			t.Errorf("%s\n got %s\nwant %s", step.Name, got, want)
		}
	}
	if lines.More() {
		t.Error("more is printed than there are steps")
	}
}

// plain returns JSON in a canonical form: without spaces, with sorted names.
func plain(t *testing.T, raw []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
