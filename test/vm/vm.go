//go:build linux

package vm

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar/test/need"
)

// Command is a program to run in the machine, as root and without standard input.
type Command struct {
	Program string // path on the host; a static executable, copied into a separate folder, which is also its working folder
	Args    []string
	Env     []string // KEY=value, on top of PATH=/usr/bin and HOME=/root
}

func (c Command) name() string { return filepath.Base(c.Program) }

// Spec is a machine and its commands.
type Spec struct {
	Commands []Command         // run one after the other
	Files    map[string]string // in the guest → on the host; programs may be among them, with the libraries they need
	MemoryMB int               // default 512
	CPUs     int               // default 1
	Timeout  time.Duration     // until the machine is switched off; default 30 minutes
}

// Result is how one command ended.
type Result struct {
	Status int // as in a shell: 128+n for signal n
	Output string
}

// Need ends the test on a machine that lacks QEMU, busybox or the kernel, and on one that is not amd64, as the guest's programs are.
func Need(t testing.TB) {
	t.Helper()
	need.Arch(t, "amd64")
	if _, err := tools(); err != nil {
		need.Missing(t, "%v", err)
	}
}

// Run boots a machine, runs the commands in it and switches it off. It copies their output to the test's as it arrives. A machine that does
// not complete them fails the test.
func Run(t testing.TB, s Spec) []Result {
	t.Helper()
	found, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	nonce := "@@" + rand.Text()
	disk := filepath.Join(t.TempDir(), "guest.cpio")
	if err := writeFile(disk, func(w io.Writer) error { return writeGuest(w, s, found.busybox, nonce) }); err != nil {
		t.Fatalf("make the guest's files: %v", err)
	}
	timeout := s.Timeout
	if timeout == 0 {
		timeout = 30 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	// The guest's clock counts its instructions. On the host's clock, a busy host starves it: every tick finds the last one still being
	// served, and the kernel never gets past calibrating its delay loop. An instruction takes 2 ns there, which is closer to the host's. With
	// 1 ns, the host would emulate twice as many instructions of code that computes for a fixed time, such as the kernel's calibration of its
	// timer.
	c := exec.CommandContext(ctx, found.qemu,
		"-M", "microvm", "-accel", "tcg", "-icount", "shift=1,sleep=off", "-cpu", "Nehalem",
		"-smp", strconv.Itoa(max(s.CPUs, 1)), "-m", strconv.Itoa(orDefault(s.MemoryMB, 512)),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
		"-kernel", found.kernel, "-initrd", disk,
		"-append", "console=ttyS0 panic=-1 reboot=t quiet nokaslr mitigations=off cryptomgr.notests random.trust_cpu=on")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var complaints bytes.Buffer
	c.Stderr = &complaints
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	results, noise := follow(stdout, nonce, t.Output())
	err = c.Wait()
	if ctx.Err() != nil {
		err = fmt.Errorf("not finished after %v", timeout)
	}
	if len(results) < len(s.Commands) {
		t.Fatalf("the machine ended %d of %d commands: %v\n%s%s", len(results), len(s.Commands), err, noise, complaints.String())
	}
	return results
}

// follow reads the machine's console: the commands' output, which it also copies to live, and the machine's own messages in between. A
// command that did not end has no result.
func follow(console io.Reader, nonce string, live io.Writer) (results []Result, noise string) {
	var outside, output strings.Builder
	running := false
	lines := bufio.NewReader(console)
	for {
		line, err := lines.ReadString('\n')
		mark, marked := strings.CutPrefix(strings.TrimSpace(line), nonce+" ")
		fields := strings.Fields(mark)
		switch {
		case marked && fields[0] == "start":
			running = true
			output.Reset()
		case marked && len(fields) == 3:
			running = false
			status, _ := strconv.Atoi(fields[2])
			results = append(results, Result{Status: status, Output: strings.TrimSuffix(output.String(), "\n")})
		case running:
			output.WriteString(line)
			io.WriteString(live, line)
		default:
			outside.WriteString(line)
		}
		if err != nil {
			return results, outside.String()
		}
	}
}

// host holds the files that make a machine.
type host struct{ qemu, kernel, busybox string }

func tools() (host, error) {
	var h host
	var err error
	if h.qemu, err = exec.LookPath("qemu-system-x86_64"); err != nil {
		return h, errors.New("no virtual machine: the package qemu-system-x86 is missing")
	}
	if h.busybox, err = exec.LookPath("busybox"); err != nil || !static(h.busybox) {
		return h, errors.New("no virtual machine: the package busybox-static is missing")
	}
	h.kernel, err = kernel()
	return h, err
}

// kernel returns the kernel that BELLJAR_VM_KERNEL names, or the newest that kernel.sh has fetched; as root on Debian it runs kernel.sh.
func kernel() (string, error) {
	if name := os.Getenv("BELLJAR_VM_KERNEL"); name != "" {
		return name, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(cache, "belljar", "vm", "vmlinuz-*"))
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return slices.Max(found), nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", errors.New("no virtual machine: its kernel is missing; test/vm/kernel.sh fetches it")
	}
	var complaints bytes.Buffer
	fetch := exec.Command("./kernel.sh")
	fetch.Stderr = &complaints
	name, err := fetch.Output()
	if err != nil {
		return "", fmt.Errorf("no virtual machine: test/vm/kernel.sh: %w: %s", err, bytes.TrimSpace(complaints.Bytes()))
	}
	return string(bytes.TrimSpace(name)), nil
}

// static reports whether a program needs no other file.
func static(name string) bool {
	f, err := elf.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// Test compiles the tests of a package of this module, named by its folder, to a program for the machine.
func Test(t testing.TB, pkg string) string {
	t.Helper()
	pkg = "github.com/belljar/belljar/" + pkg
	out := filepath.Join(t.TempDir(), filepath.Base(pkg)+".test")
	gotool(t, "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	if err := os.Chmod(out, 0o755); err != nil { // other users of the machine run it, too
		t.Fatal(err)
	}
	// go test does not track the files that the compiler reads here, and would use its cached result. Reading the folders makes it track them.
	for dir := range strings.FieldsSeq(gotool(t, "list", "-deps", "-test", "-f", "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}", pkg)) {
		if _, err := os.ReadDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func gotool(t testing.TB, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=")
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return string(out)
}

func writeFile(name string, body func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := body(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
