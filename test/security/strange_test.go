//go:build linux

package security

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// elsewherePath returns the target of the links in hostile images: a folder for this process's tests, since others may run on the
// machine.
func elsewherePath() string { return fmt.Sprintf("/tmp/belljar-elsewhere-%d", os.Getpid()) }

// elsewhere checks that nothing was written to the target of the image's links.
func elsewhere(t *testing.T, _ *trial) func(outcome) {
	// The image's links lead there. Several lanes may use it at the same time, so no lane removes it.
	if err := os.MkdirAll(elsewherePath(), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(elsewherePath(), 0o777); err != nil {
		t.Fatal(err)
	}
	return func(outcome) {
		entries, err := os.ReadDir(elsewherePath())
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			t.Errorf("%s was made on the host", filepath.Join(elsewherePath(), e.Name()))
		}
		for _, path := range []string{"/var/tmp/belljar-was-here", "/etc/belljar-was-here", "/var/tmp/hosts", "/var/tmp/passwd"} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s was made on the host", path)
			}
		}
	}
}

// engineSocket gives the attack the path of the engine's socket on the host.
func engineSocket(_ *testing.T, tr *trial) func(outcome) {
	if tr.lane.engine != nil {
		tr.flags = append(tr.flags, "--env", "LANE_SOCKET="+tr.lane.engine.Socket())
	}
	return func(outcome) {}
}

// agentEnv keeps another sandbox of the same image alive and inspects its processes from outside: the image's environment must
// reach neither the agent nor any other process that makes the sandbox.
func agentEnv(t *testing.T, tr *trial) func(outcome) {
	other := tr.lane.trial(t)
	other.ref = tr.ref
	p, end := other.held("true")
	return func(outcome) {
		defer end()
		looked := 0
		for _, pid := range tr.lane.pids(t, p) {
			env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err != nil {
				continue // it has ended, or is a neighbour's
			}
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err != nil || bytes.Contains(line, []byte("belljar-bait")) {
				continue // the program itself, and the process that started it
			}
			looked++
			for _, word := range []string{imageMark, "/evil.so", "GOTRACEBACK=crash"} {
				if bytes.Contains(env, []byte(word)) {
					t.Errorf("%s is in the environment of process %d: %q", word, pid, bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
				}
			}
		}
		if looked == 0 && !tr.lane.ready {
			t.Error("control: no environment could be read")
		}
	}
}
