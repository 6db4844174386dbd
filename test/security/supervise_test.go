//go:build linux

package security

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A supervisor runs between the test and belljar: this test binary, started again. It is the subreaper of everything below, so
// every process that outlives belljar becomes its child and is reported, whatever else runs on the machine.

const (
	superviseEnv = "BELLJAR_SUPERVISE" // an order, as JSON
	accountFD    = 3
)

// order is a supervisor's task.
type order struct {
	Argv []string
	Env  []string
	Dir  string
	UID  int               // 0 keeps the current user
	Etc  map[string]string // files of /etc to cover, in a mount namespace of its own: path → source
}

// account is a supervisor's report.
type account struct {
	Error     string
	Status    int           // exit status of belljar, -1 for a signal
	Survivors []string      // command lines of processes that outlived belljar
	CPU       time.Duration // of belljar and its reaped descendants
	Blocks    int64         // of 512 bytes, written to disks by belljar and its descendants
}

// supervise runs the supervisor.
func supervise(raw string) int {
	runtime.LockOSThread() // Pdeathsig is tied to the thread
	var o order
	var a account
	err := json.Unmarshal([]byte(raw), &o)
	if err == nil {
		a, err = o.carryOut()
	}
	if err != nil {
		a.Error = err.Error()
	}
	if err := json.NewEncoder(os.NewFile(accountFD, "account")).Encode(a); err != nil {
		return 1
	}
	return 0
}

func (o order) carryOut() (account, error) {
	unix.CloseOnExec(accountFD)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return account{}, fmt.Errorf("become subreaper: %w", err)
	}
	if len(o.Etc) > 0 {
		if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return account{}, fmt.Errorf("private mounts: %w", err)
		}
	}
	for path, source := range o.Etc {
		if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
			return account{}, fmt.Errorf("cover %s: %w", path, err)
		}
	}
	cmd := exec.Command(o.Argv[0], o.Argv[1:]...)
	cmd.Env, cmd.Dir = o.Env, o.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if o.UID != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.UID)}
	}
	var status *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &status) {
		return account{}, err
	}
	survivors := reap()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		return account{}, err
	}
	return account{
		Status: cmd.ProcessState.ExitCode(), Survivors: survivors, CPU: time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), Blocks: usage.Oublock,
	}, nil
}

// reap reaps the dead descendants, and kills and returns the living ones.
func reap() []string {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.EINTR || pid > 0 {
			continue
		}
		if err != nil {
			return nil
		}
		break
	}
	var alive []string
	for _, pid := range descendants(os.Getpid()) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		alive = append(alive, fmt.Sprintf("%d: %s", pid, strings.ReplaceAll(string(cmdline), "\x00", " ")))
		unix.Kill(pid, unix.SIGKILL)
	}
	return alive
}

// descendants lists the processes below pid.
func descendants(pid int) []int {
	var all []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(raw)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}
