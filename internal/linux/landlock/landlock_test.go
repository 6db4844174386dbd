//go:build linux

package landlock_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/landlock"
)

// role selects the program that this test binary runs as.
const role = "BELLJAR_LANDLOCK_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	json.NewEncoder(os.Stdout).Encode(attempt(os.Args[1], os.Args[2]))
}

// attempt tries all operations that a rule can restrict, in a folder that allows them and in one that does not, and returns the
// error numbers, 0 for success.
func attempt(in, out string) map[string]unix.Errno {
	got := map[string]unix.Errno{}
	note := func(what string, err error) {
		var e syscall.Errno
		errors.As(err, &e)
		if err != nil && e == 0 {
			e = unix.EIO
		}
		got[what] = e
	}
	for name, dir := range map[string]string{"in": in, "out": out} {
		at := func(file string) string { return filepath.Join(dir, file) }
		_, err := os.ReadFile(at("file"))
		note(name+" read", err)
		_, err = os.ReadDir(dir)
		note(name+" list", err)
		note(name+" write", openAndClose(at("file"), unix.O_WRONLY))
		note(name+" truncate", unix.Truncate(at("file"), 1))
		note(name+" open to truncate", openAndClose(at("file"), unix.O_RDONLY|unix.O_TRUNC))
		note(name+" create", openAndClose(at("new"), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL))
		note(name+" mkdir", unix.Mkdir(at("newdir"), 0o755))
		note(name+" symlink", unix.Symlink("file", at("newlink")))
		note(name+" fifo", unix.Mkfifo(at("newfifo"), 0o644))
		note(name+" char device", unix.Mknod(at("newdev"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		note(name+" block device", unix.Mknod(at("newblk"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))))
		err = os.Chdir(dir) // the path of a socket has at most 107 bytes
		if err == nil {
			err = listen("unix", "newsock")
		}
		note(name+" socket", err)
		note(name+" rename to a folder", unix.Rename(at("movable"), at("dir/moved")))
		note(name+" remove", unix.Unlink(at("removable")))
		note(name+" rmdir", unix.Rmdir(at("emptydir")))
	}
	note("move in to out", unix.Rename(filepath.Join(in, "file"), filepath.Join(out, "moved")))
	note("link out to in", unix.Link(filepath.Join(out, "file"), filepath.Join(in, "linked")))
	note("null", os.WriteFile("/dev/null", []byte("x"), 0o644))
	note("proc", os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0o644))
	note("tcp", listen("tcp", "127.0.0.1:0"))
	note("signal to the parent", unix.Kill(os.Getppid(), 0))
	note("signal to itself", unix.Kill(os.Getpid(), 0))
	note("exec", run("/bin/true"))
	return got
}

func openAndClose(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func listen(network, address string) error {
	l, err := net.Listen(network, address)
	if err == nil {
		l.Close()
	}
	return err
}

func run(path string) error {
	p, err := os.StartProcess(path, []string{path}, &os.ProcAttr{})
	if err == nil {
		_, err = p.Wait()
	}
	return err
}

// allowed is the result of attempt under the whole ruleset.
func allowed() map[string]unix.Errno {
	want := map[string]unix.Errno{
		// Moves out of the folders fail like moves between two file systems, so that programs copy, or with EACCES.
		"move in to out": unix.EACCES, "link out to in": unix.EXDEV,
		"null": 0, "proc": 0, "tcp": 0, "signal to the parent": unix.EPERM, "signal to itself": 0, "exec": 0,
		"in char device": unix.EACCES, "in block device": unix.EACCES, "out char device": unix.EACCES, "out block device": unix.EACCES,
		"in read": 0, "in list": 0, "out read": 0, "out list": 0,
	}
	for _, what := range []string{
		"write", "truncate", "open to truncate", "create", "mkdir", "symlink", "fifo", "socket", "rename to a folder", "remove", "rmdir",
	} {
		want["in "+what], want["out "+what] = 0, unix.EACCES
	}
	return want
}

// folder makes a folder with the files that attempt needs.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"dir", "emptydir"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"file", "movable", "removable"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// confined runs attempt under the rules of version abi. The folder where everything is allowed is named by its path or,
// if open, by a descriptor.
func confined(t *testing.T, abi int, open bool) map[string]unix.Errno {
	t.Helper()
	in := folder(t)
	rules := landlock.Ruleset{ReadExec: []string{"/"}, ReadWrite: []string{"/no/such/folder"}, Use: []string{"/dev", "/proc"}}
	if open {
		fd, err := unix.Open(in, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		rules.Open = []int{fd}
	} else {
		rules.ReadWrite = append(rules.ReadWrite, in)
	}
	return under(t, rules, abi, in)
}

// under runs attempt in the folder in, under rules.
func under(t *testing.T, rules landlock.Ruleset, abi int, in string) map[string]unix.Errno {
	t.Helper()
	out := folder(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := forkexec.New()
	p.Call(unix.SYS_DUP3, forkexec.Int(int(w.Fd())), forkexec.Int(1), forkexec.Int(0))
	p.Step("landlock")
	if !rules.Append(p, abi) {
		t.Fatalf("nothing was appended for version %d", abi)
	}
	p.Step("exec")
	p.Exec(self, []string{self, in, out}, []string{role + "=1"})
	c, err := p.Start(forkexec.Options{})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c.PidFD)
	var text strings.Builder
	if _, err := r.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(c.Pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	var got map[string]unix.Errno
	if err := json.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatalf("%v in %q", err, text.String())
	}
	return got
}

func TestRulesHold(t *testing.T) {
	abi := landlock.ABI()
	if abi < 6 {
		t.Skipf("this kernel has Landlock version %d, the whole ruleset needs 6", abi)
	}
	for name, open := range map[string]bool{"by path": false, "by descriptor": true} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(allowed(), confined(t, abi, open)); diff != "" {
				t.Errorf("under all rules (-want +got):\n%s", diff)
			}
		})
	}
}

// In a shared folder everything is allowed but making FIFOs.
func TestSharedFolder(t *testing.T) {
	abi := landlock.ABI()
	if abi < 6 {
		t.Skipf("this kernel has Landlock version %d, the whole ruleset needs 6", abi)
	}
	in, want := folder(t), allowed()
	want["in fifo"] = unix.EACCES
	rules := landlock.Ruleset{ReadExec: []string{"/"}, Shared: []string{in}, Use: []string{"/dev", "/proc"}}
	if diff := cmp.Diff(want, under(t, rules, abi, in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An operation that an older kernel cannot restrict stays possible; all others are restricted.
func TestOlderVersions(t *testing.T) {
	if landlock.ABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	for abi := 2; abi <= min(5, landlock.ABI()); abi++ {
		want := allowed()
		want["signal to the parent"] = 0
		if abi < 3 {
			want["out truncate"], want["out open to truncate"] = 0, 0
		}
		if diff := cmp.Diff(want, confined(t, abi, false)); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", abi, diff)
		}
	}
}

func TestWithoutLandlock(t *testing.T) {
	for _, abi := range []int{-1, 0, 1} {
		p := forkexec.New()
		if landlock.Sandbox(false, false).Append(p, abi) {
			t.Errorf("version %d: rules were appended", abi)
		}
	}
}

// A zero ruleset grants nothing: the program cannot even be executed, and the failure names its step.
func TestZeroRulesetGrantsNothing(t *testing.T) {
	abi := landlock.ABI()
	if abi == 0 {
		t.Skip("this kernel has no Landlock")
	}
	p := forkexec.New()
	landlock.Ruleset{}.Append(p, abi)
	p.Step("exec")
	p.Exec("/bin/true", []string{"true"}, nil)
	_, err := p.Start(forkexec.Options{})
	var e *forkexec.Error
	if !errors.As(err, &e) || e.Step != "exec" || e.Errno != unix.EACCES {
		t.Errorf("got %v, want exec: EACCES", err)
	}
}

// A program with rules may be started again.
func TestProgramIsReusable(t *testing.T) {
	abi := landlock.ABI()
	if abi == 0 {
		t.Skip("this kernel has no Landlock")
	}
	p := forkexec.New()
	landlock.Sandbox(false, false).Append(p, abi)
	p.Exec("/bin/true", []string{"true"}, nil)
	for range 3 {
		c, err := p.Start(forkexec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(c.Pid, &status, 0, nil); err != nil {
			t.Fatal(err)
		}
		unix.Close(c.PidFD)
		if status != 0 {
			t.Errorf("status %#x", status)
		}
	}
}
