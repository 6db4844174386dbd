//go:build linux

package e2e

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDamagedInstallation starts a server on damaged data. It names the file and the fix, exits with 125, and leaves the file
// unchanged.
func TestDamagedInstallation(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data)
	s.ask(http.MethodPost, api+"/runs?wait=600s", oneShot("true"))
	if code := s.stop(); code != 0 {
		t.Fatalf("ended with %d\n%s", code, s.output)
	}
	for name, spoil := range map[string]func(string) error{
		"belljar.db":     func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("no database "), 2000), 0o600) },
		"installation":   func(path string) error { return os.WriteFile(path, []byte("../no name"), 0o600) },
		"signing-secret": func(path string) error { return os.WriteFile(path, []byte("no secret"), 0o600) },
		"logs":           func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"artifacts":      func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"audit":          func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(data, name)
			aside := filepath.Join(t.TempDir(), name)
			if err := os.Rename(path, aside); err != nil {
				t.Fatal(err)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s, ready := launch(t, data)
			if err := <-ready; err == nil {
				t.Error("it is ready")
				return
			}
			<-s.done
			log := s.output.String()
			if code := s.cmd.ProcessState.ExitCode(); code != 125 || !strings.Contains(log, data) || !strings.Contains(log, "\nhint: ") ||
				strings.Contains(log, "goroutine") {
				t.Errorf("it ended with %d and printed\n%s", code, log)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file has changed: %v", err)
			}
			if err := os.Rename(aside, path); err != nil {
				if err = os.Remove(path); err == nil {
					err = os.Rename(aside, path)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	again := serve(t, data)
	if _, list := again.ask(http.MethodGet, api+"/runs", nil); list["total"] != 1.0 {
		t.Errorf("with everything in its place again: %v", list)
	}
	if code := again.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, again.output)
	}
}

// TestDamagedRun damages the stored data of single runs. Each reports its own damage; other runs, and the server, are
// unaffected.
func TestDamagedRun(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data)
	request := oneShot("for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.005; done; mkdir out; seq 3000 >out/a")
	request["capture_patterns"] = []string{"out/*"}
	ids := map[string]string{}
	for _, name := range []string{"cut", "flipped", "gone", "folder", "blob", "row", "well"} {
		status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", request)
		if status != http.StatusOK || run["phase"] != "completed" {
			t.Fatalf("%d %v", status, run)
		}
		ids[name], _ = run["id"].(string)
	}
	if code := s.stop(); code != 0 {
		t.Fatalf("ended with %d\n%s", code, s.output)
	}
	file := func(folder, name string) string {
		t.Helper()
		found := named(filepath.Join(data, folder), ids[name])
		if len(found) != 1 {
			t.Fatalf("files of %s: %v", name, found)
		}
		return found[0]
	}
	change := func(path string, how func([]byte) []byte) {
		t.Helper()
		raw, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, how(raw), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change(file("logs", "cut"), func(b []byte) []byte { return b[:len(b)/2] })
	change(file("logs", "flipped"), func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
	for _, err := range []error{
		os.Remove(file("logs", "gone")),
		os.Remove(filepath.Join(file("artifacts", "blob"), "artifacts", "out", "a")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	folder := file("logs", "folder")
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	query(t, filepath.Join(data, "belljar.db"), "UPDATE sandbox_runs SET detail = '{' WHERE id = '"+ids["row"]+"'")

	s = serve(t, data)
	for name, want := range map[string]struct {
		run, log, artifact int
		marked             bool
	}{
		"cut":     {200, 200, 200, true},
		"flipped": {200, 200, 200, true},
		"gone":    {200, 200, 200, true},
		"folder":  {200, 500, 200, false},
		"blob":    {200, 200, 404, false},
		"row":     {500, 500, 500, false},
		"well":    {200, 200, 200, false},
	} {
		path := api + "/runs/" + ids[name]
		run, _ := s.ask(http.MethodGet, path, nil)
		if run != want.run {
			t.Errorf("%s: the run: %d", name, run)
		}
		frames, err := s.frames(path+"/logs?format=json", nil)
		if (err == nil) != (want.log == 200) {
			t.Errorf("%s: the log: %v", name, err)
		}
		marked := false
		for i, f := range frames {
			marked = marked || f["reason"] == "log_damaged"
			if last := i == len(frames)-1; last != (f["event"] == "end") || !last && f["seq"] != float64(i+1) {
				t.Errorf("%s: frame %d is %v", name, i+1, f)
			}
		}
		if marked != want.marked {
			t.Errorf("%s: the log is %v", name, frames)
		}
		if _, err := s.get(path + "/artifacts/out/a"); (err == nil) != (want.artifact == 200) {
			t.Errorf("%s: the artifact: %v", name, err)
		}
	}
	if _, list := s.ask(http.MethodGet, api+"/runs", nil); list["total"] != float64(len(ids)) || len(list["items"].([]any)) != len(ids)-1 {
		t.Errorf("the list: %v", list)
	}
	if status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", request); status != http.StatusOK || run["phase"] != "completed" {
		t.Errorf("a new run: %d %v", status, run)
	}
	for _, word := range []string{"log is damaged", "row is corrupt"} {
		if !strings.Contains(s.output.String(), word) {
			t.Errorf("the server does not say %q\n%s", word, s.output)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
}
