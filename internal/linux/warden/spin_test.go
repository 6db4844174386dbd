//go:build linux

package warden

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// spins is set in the environment of a faulty warden process.
const spins = "BELLJAR_TEST_SPINS"

func TestMain(m *testing.M) {
	if os.Getenv(spins) == "" {
		os.Exit(m.Run())
	}
	raisePriority()
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_RR {
		fmt.Println("no precedence")
		os.Exit(0)
	}
	fmt.Println("spinning")
	//lint:ignore SA5002 the kernel ends it
	for {
	}
}

// The kernel ends a warden with a thread that computes without end: with precedence it would block a processor.
func TestSpinEnds(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), spins+"=1")
	out, err := cmd.Output()
	if string(out) == "no precedence\n" {
		t.Skip("the system gives no precedence here: it takes root, in a cgroup that has real time")
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || string(out) != "spinning\n" {
		t.Fatalf("%q, %v", out, err)
	}
	if signal := exit.Sys().(syscall.WaitStatus).Signal(); signal != syscall.SIGKILL {
		t.Errorf("ended by %v", signal)
	}
}
