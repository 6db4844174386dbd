//go:build linux

// Package nest runs the tests of a package in their own PID namespace, like sandboxes. An agent in a test reads the table of all
// processes whenever it ends a command: the machine's processes would take most of the time.
//
//	func TestMain(m *testing.M) { os.Exit(nest.Main(func() int { return leak.Main(m) })) }
package nest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// place is an environment variable with the role of a process: "" outside, "init" for the first process of the namespace, "in" for
// the tests.
const place = "BELLJAR_TEST_NEST"

// refused is the exit status of a first process that may not mount /proc, as in some containers. Tests never exit with it.
const refused = 123

// Main runs tests and returns their status. It runs them in this process if this process may not make namespaces.
func Main(tests func() int) int {
	switch os.Getenv(place) {
	case "init":
		return reap()
	case "in":
		return tests()
	}
	self, err := os.Executable()
	if err != nil || os.Getuid() != 0 {
		return tests()
	}
	runtime.LockOSThread() // the namespace ends with this thread
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), place+"=init")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		runtime.UnlockOSThread()
		return tests()
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != refused {
		return code
	}
	return tests()
}

// reap starts the tests and waits for them, and for all orphans.
func reap() int {
	err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""),
	)
	if err != nil {
		return refused
	}
	self, err := os.Executable()
	if err := errors.Join(err, os.Setenv(place, "in")); err != nil { // of two variables with one name, Go uses the first
		fmt.Fprintln(os.Stderr, "nest:", err)
		return 1
	}
	child, err := syscall.ForkExec(self, os.Args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "nest:", err)
		return 1
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			fmt.Fprintln(os.Stderr, "nest:", err)
			return 1
		case pid == child && status.Signaled():
			fmt.Fprintln(os.Stderr, "nest: the tests were killed:", status.Signal())
			return 1
		case pid == child:
			return status.ExitStatus()
		}
	}
}
