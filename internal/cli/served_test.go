package cli_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/program"
)

// serving is the output of serve --json.
type serving struct {
	URL     string `json:"url"`
	APIKey  string `json:"api_key"`
	KeyFile string `json:"api_key_file"`
	Data    string `json:"data"`
}

// serveScript is the script command serve [FLAGS…]: it starts the script's own belljar serve, waits until it is ready, and points
// BELLJAR_SERVER and BELLJAR_API_KEY at it. At the script's end it stops the server and checks the exit.
func serveScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: serve [FLAGS]")
	}
	belljar, err := exec.LookPath("belljar")
	ts.Check(err)
	words := append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--data", ts.MkAbs(".data"), "--set", "pool_size=1"}, args...)
	cmd := exec.Command(belljar, words...)
	for _, name := range []string{"PATH", "HOME", "TMPDIR", program.AgentVariable, "XDG_RUNTIME_DIR", "SANDBOX_IMAGE_REGISTRIES", "SANDBOX_IMAGE_PULL"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+os.Getenv("XDG_RUNTIME_DIR"), "SANDBOX_END_SESSIONS=true") // no later server would end them
	cmd.Env = append(cmd.Env, build.Patient()...)
	log, err := os.Create(filepath.Join(ts.MkAbs("."), ".serve-log"))
	ts.Check(err)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already, which Wait reports
		err := cmd.Wait()
		log.Close()
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			ts.Logf("belljar serve: %v\n%s", err, text)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		ts.Fatalf("belljar serve: %v\n%s", err, text)
	}
	var ready serving
	ts.Check(json.Unmarshal(line, &ready))
	ts.Setenv("BELLJAR_SERVER", ready.URL)
	ts.Setenv("BELLJAR_API_KEY", ready.APIKey)
	ts.Setenv("KEYFILE", ready.KeyFile)
}

// keep is the script command keep NAME: it stores the last command's standard output, without the newline, in a variable.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep NAME")
	}
	text := ts.ReadFile("stdout")
	for len(text) > 0 && text[len(text)-1] == '\n' {
		text = text[:len(text)-1]
	}
	ts.Setenv(args[0], text)
}

// until is the script command until REGEXP PROGRAM ARGS…: it repeats the program until its standard output matches, for some
// minutes at most.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP PROGRAM ARGS")
	}
	wanted, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && wanted.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("it never says %s: %v", args[0], err)
		}
	}
}
