//go:build linux

package guest_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/sockdir"
)

// stubborn returns commands that resist their end. Each prints the pids of its processes, and then "up".
func stubborn() map[string]string {
	return map[string]string{
		"waits":         "echo $$; echo up; exec sleep 1000",
		"ignores TERM":  "trap '' TERM; echo $$; echo up; while :; do sleep 1000; done",
		"stopped":       "sleep 1000 & echo $!; kill -STOP $!; echo up; wait",
		"double fork":   "(setsid sh -c 'trap \"\" TERM; echo $$; echo up; while :; do sleep 1000; done' &) ; exec sleep 1000",
		"forks on TERM": "trap 'setsid sleep 1000 & echo $!' TERM; echo $$; echo up; while :; do sleep 1000 & wait; done",
		"exits 0":       "trap 'exit 0' TERM; echo $$; echo up; while :; do sleep 1000 & wait; done",
		"first is gone": "trap '' TERM; (setsid sleep 1000 & echo $!); echo up; exec sleep 1000",
	}
}

// modes runs a test with each way in which an agent can kill.
func modes(t *testing.T, run func(t *testing.T, config func(*testing.T) guest.Config)) {
	t.Run("keeper", func(t *testing.T) { run(t, func(*testing.T) guest.Config { return guest.Config{} }) })
	t.Run("cgroup", func(t *testing.T) {
		run(t, func(t *testing.T) guest.Config { return guest.Config{CgroupFD: delegate(t)} })
	})
}

// delegate creates a cgroup2 folder for a test and returns a descriptor of it.
func delegate(t *testing.T) int {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(root, "belljar-guest-test-")
		if err != nil {
			break
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("a cgroup is left: %v", err)
			}
		})
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	t.Skip("no writable cgroup2 mount on this machine: cgroup mode is not tested")
	return 0
}

// timed runs a stubborn command until its timeout, on a host that begin starts. It retries with a longer timeout until the command
// is up by then.
func timed(t *testing.T, begin func() *host, name, script string) (h *host, out string, exit *wire.Exit) {
	t.Helper()
	for timeout := int64(1500); ; timeout *= 3 {
		h = begin()
		e := h.sh("a", script)
		e.TimeoutMS, e.GraceMS = timeout, 100
		if name == "exits 0" { // the program needs the time
			e.GraceMS = patience.Milliseconds() / 2
		}
		l := h.exec(e)
		l.started()
		if out, _, exit = l.follow(nil); strings.Contains(out, "up\n") || timeout > patience.Milliseconds()/4 {
			return h, out, exit
		}
	}
}

func TestTimeoutKillsEverything(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		for name, script := range stubborn() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h, out, exit := timed(t, func() *host { return begin(t, config(t)) }, name, script)
				if exit.Cause != wire.CauseTimeout {
					t.Errorf("exit %+v", exit)
				}
				if name == "exits 0" && exit.Code != 0 {
					t.Errorf("exit %+v", exit)
				}
				for _, pid := range strings.Fields(strings.ReplaceAll(out, "up", "")) {
					h.gone(number(t, pid))
				}
			})
		}
	})
}

func TestEnd(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		h := begin(t, config(t))
		l := h.exec(h.sh("a", "trap '' TERM; echo $$; while :; do sleep 1000; done"))
		l.started()
		pid := number(t, l.await("\n"))
		// The second request, with less grace, counts.
		l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: 3_600_000}})
		if !h.ask(wire.Request{Op: wire.OpSignal, ID: "a", Kill: &wire.Kill{End: true}}).reply().Done {
			t.Fatal("not done")
		}
		if exit := l.exit(); exit.Cause != wire.CauseEnded || exit.Signal != 9 || exit.Code != -1 {
			t.Errorf("exit %+v", exit)
		}
		h.gone(pid)
		h.ask(wire.Request{Op: wire.OpSignal, ID: "a", Kill: &wire.Kill{End: true}}).failure(wire.CodeNotFound)
		h.ask(wire.Request{Op: wire.OpSignal, ID: "b", Kill: &wire.Kill{Signal: 15}}).failure(wire.CodeNotFound)
	})
}

func TestKillAllTakesSurvivors(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		h := begin(t, config(t))
		e := h.sh("a", "(setsid sh -c 'trap \"\" TERM HUP; echo $$; while :; do sleep 1000; done' &) ; read x; exit 3")
		e.KillAll, e.Stdin = true, true
		l := h.exec(e)
		l.started()
		pid := number(t, l.await("\n"))
		if err := l.w.EOF(); err != nil {
			t.Fatal(err)
		}
		exit := l.exit()
		if exit.Code != 3 || exit.Cause != wire.CauseExited {
			t.Errorf("exit %+v", exit)
		}
		h.gone(pid)
	})
}

// In a session, survivors continue: the exit does not wait for them, and their output neither blocks nor kills them.
func TestSurvivorsLiveOn(t *testing.T) {
	h := begin(t, guest.Config{})
	gate, result := filepath.Join(h.dir, "gate"), filepath.Join(h.dir, "result")
	for _, fifo := range []string{gate, result} {
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := h.exec(h.sh("a", "(setsid sh -c 'read x < gate; head -c 1000000 /dev/zero && echo fine > result' &); echo first"))
	l.started()
	out, _, exit := l.follow(nil)
	if out != "first\n" || exit.Code != 0 || exit.Position != 6 {
		t.Errorf("%q, %+v", out, exit)
	}
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(result); err != nil || string(got) != "fine\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// A command's end does not wait for the hour that its child sleeps, also on a terminal.
func TestTerminalSurvivor(t *testing.T) {
	h := begin(t, guest.Config{})
	e := h.sh("a", "trap '' HUP; sleep 1000 & echo $!")
	e.PTY = &wire.Size{Cols: 80, Rows: 24}
	l := h.exec(e)
	l.started()
	out, _, exit := l.follow(nil)
	if exit.Code != 0 {
		t.Errorf("exit %+v", exit)
	}
	if err := unix.Kill(number(t, out), 0); err != nil {
		t.Errorf("the survivor is gone: %v", err)
	}
	h.agent.Close()
	h.gone(number(t, out))
}

func TestKeeperKilled(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		h := begin(t, config(t))
		l := h.exec(h.sh("a", "echo $PPID; echo $$; echo up; sleep 1000"))
		l.started()
		pids := strings.Fields(l.await("up\n"))
		if err := unix.Kill(number(t, pids[0]), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if exit := l.exit(); exit.Cause != wire.CauseLost || exit.Code != -1 {
			t.Errorf("exit %+v", exit)
		}
		if x, err := os.ReadFile("/proc/" + pids[1] + "/stat"); err == nil && !strings.Contains(string(x), ") Z ") {
			t.Errorf("the command lives: %s", x)
		}
	})
}

// A program that shares the agent's user can stop its keeper, which then reports nothing. That does not delay the command's end.
func TestKeeperStopped(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		h := begin(t, config(t))
		e := h.sh("a", "read x; kill -STOP $PPID; echo up")
		e.Stdin = true
		l := h.exec(e)
		l.started()
		if err := l.w.EOF(); err != nil { // the keeper has reported the start
			t.Fatal(err)
		}
		l.await("up\n")
		l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true}})
		if exit := l.exit(); exit.Cause != wire.CauseEnded {
			t.Errorf("exit %+v", exit)
		}
	})
}

func TestCgroupUsage(t *testing.T) {
	h := begin(t, guest.Config{CgroupFD: delegate(t)})
	if !h.ask(wire.Request{Op: wire.OpPing}).reply().Info.Cgroup {
		t.Error("no cgroup")
	}
	l := h.exec(h.sh("a", "grep exec- /proc/self/cgroup; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"))
	l.started()
	out, _, exit := l.follow(nil)
	if !strings.Contains(out, "exec-1") || exit.Usage.Source != "cgroup2" || exit.Usage.UserMicros+exit.Usage.SystemMicros == 0 {
		t.Errorf("%q, %+v", out, exit)
	}
}

// The test as PID 1: in its own PID namespace, where the agent reaps, and kills all processes together.
func TestAsInit(t *testing.T) {
	need.Root(t)
	for name, script := range stubborn() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _, exit := timed(t, func() *host { return beginInit(t, 0) }, name, script)
			if exit.Cause != wire.CauseTimeout || exit.Usage.MaxRSS == 0 {
				t.Errorf("exit %+v", exit)
			}
			// Only PID 1 and the observer are left: init, keeper, sh, ls.
			l := h.exec(h.sh("b", "for p in /proc/[0-9]*; do echo ${p#/proc/}; done"))
			l.started()
			if out, _, _ := l.follow(nil); len(strings.Fields(out)) != 3 {
				t.Errorf("processes: %q", out)
			}
		})
	}
	t.Run("keeper killed, with another command running", func(t *testing.T) {
		h := beginInit(t, 0)
		e := h.sh("o", "echo up; read x; echo $x")
		e.Stdin = true
		bystander := h.exec(e)
		bystander.started()
		bystander.await("up")
		l := h.exec(h.sh("a", "(setsid sh -c 'echo up; while :; do sleep 1000; done' &); sleep 1000"))
		pid := l.started().Pid
		l.await("up")
		k := h.exec(h.sh("k", "kill -KILL $(awk '{print $4}' /proc/"+strconv.Itoa(pid)+"/stat)"))
		k.started()
		k.exit()
		if exit := l.exit(); exit.Cause != wire.CauseLost {
			t.Errorf("exit %+v", exit)
		}
		if err := bystander.w.Data([]byte("fine\n")); err != nil {
			t.Fatal(err)
		}
		bystander.await("fine")
		bystander.exit()
		l = h.exec(h.sh("b", "grep -l '^[s]leep' /proc/[0-9]*/cmdline || echo none")) // dead processes have no arguments
		l.started()
		if out, _, _ := l.follow(nil); out != "none\n" {
			t.Errorf("processes: %q", out)
		}
	})
}

// beginInit starts an agent as PID 1 of new namespaces, by running this program again. cgroupFD is 0 for none.
func beginInit(t *testing.T, cgroupFD int) *host {
	t.Helper()
	socket := filepath.Join(sockdir.New(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	defer file.Close()
	alive, lifeline, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := guest.Config{ListenFD: 3, LifelineFD: 4, Workspace: dir, Init: true}
	files := []*os.File{file, alive}
	if cgroupFD > 0 {
		cgroup := os.NewFile(uintptr(cgroupFD), "cgroup")
		defer cgroup.Close()
		files, cfg.CgroupFD = append(files, cgroup), 5
	}
	config, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GUEST_TEST_INIT="+string(config))
	cmd.ExtraFiles = files
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	alive.Close()
	t.Cleanup(func() {
		lifeline.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("init: %v", err)
		}
	})
	return &host{TB: t, dir: dir, socket: socket}
}

// beInit is the other program's main function.
func beInit(config string) int {
	var cfg guest.Config
	err := json.Unmarshal([]byte(config), &cfg)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", 0, "")
	}
	var l net.Listener
	if err == nil {
		l, err = net.FileListener(os.NewFile(uintptr(cfg.ListenFD), "listener"))
	}
	var a *guest.Agent
	if err == nil {
		a, err = guest.New(cfg)
	}
	if err == nil {
		err = a.Serve(l)
		<-a.Done()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		os.Stderr.WriteString("init: " + err.Error() + "\n")
		return 1
	}
	return 0
}
