//go:build linux

package seccomp

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/test/need"
)

// role selects the program that this test binary runs under the filters.
const role = "BELLJAR_SECCOMP_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "attempts":
		json.NewEncoder(os.Stdout).Encode(attemptAll())
	case "int80":
		int80()
	case "program":
		goProgram()
	default:
		os.Exit(3)
	}
}

// confined runs a program like a command of a sandbox: Agent first, Exec on top. It returns its output.
func confined(t *testing.T, path string, argv, env []string) (string, unix.WaitStatus) {
	t.Helper()
	f, err := Sandbox(Options{SharedUID: true})
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := forkexec.New()
	for _, fd := range []int{1, 2} {
		p.Call(unix.SYS_DUP3, forkexec.Int(int(w.Fd())), forkexec.Int(fd), forkexec.Int(0))
	}
	p.Step("agent filter")
	f.Agent.Append(p)
	p.Step("exec filter")
	f.Exec.Append(p)
	p.Step("exec")
	p.Exec(path, argv, env)
	c, err := p.Start(forkexec.Options{})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c.PidFD)
	var out strings.Builder
	if _, err := r.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(c.Pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	return out.String(), status
}

func self(t *testing.T, as string) (string, unix.WaitStatus) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return confined(t, path, []string{"self"}, []string{role + "=" + as, "GOCOVERDIR=" + t.TempDir()})
}

// attempt is a call that must fail with errno. Its arguments are invalid for another reason, so that the kernel does nothing if the
// filter allows it.
type attempt struct {
	name   string
	number uintptr
	args   [6]uintptr
	errno  unix.Errno
}

const bad = 1 // an invalid pointer

func attempts() []attempt {
	none := ^uintptr(0)
	x := func(args ...uintptr) (out [6]uintptr) { copy(out[:], args); return out }
	list := []attempt{
		{"unshare", unix.SYS_UNSHARE, x(unix.CLONE_NEWUSER), eperm},
		{"setns", unix.SYS_SETNS, x(none), eperm},
		{"clone newuser", unix.SYS_CLONE, x(unix.CLONE_NEWUSER | unix.CLONE_THREAD), eperm}, // CLONE_THREAD alone is invalid
		{"clone newns", unix.SYS_CLONE, x(unix.CLONE_NEWNS | unix.CLONE_THREAD), eperm},
		{"clone3", unix.SYS_CLONE3, x(0, 0), enosys},
		{"mount", unix.SYS_MOUNT, x(bad, bad, bad), eperm},
		{"umount2", unix.SYS_UMOUNT2, x(bad), eperm},
		{"pivot_root", unix.SYS_PIVOT_ROOT, x(bad, bad), eperm},
		{"chroot", unix.SYS_CHROOT, x(bad), eperm},
		{"open_tree", unix.SYS_OPEN_TREE, x(none, bad), eperm},
		{"open_tree_attr", unix.SYS_OPEN_TREE_ATTR, x(none, bad), eperm},
		{"move_mount", unix.SYS_MOVE_MOUNT, x(none, bad, none, bad), eperm},
		{"fsopen", unix.SYS_FSOPEN, x(bad), eperm},
		{"fsconfig", unix.SYS_FSCONFIG, x(none), eperm},
		{"fsmount", unix.SYS_FSMOUNT, x(none), eperm},
		{"fspick", unix.SYS_FSPICK, x(none, bad), eperm},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, x(none, bad), eperm},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, x(none, bad), eperm},
		{"bpf", unix.SYS_BPF, x(none), eperm},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, x(bad, none, none, none), eperm},
		{"userfaultfd", unix.SYS_USERFAULTFD, x(none), eperm},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, x(1, bad), eperm},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, x(none), eperm},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, x(none), eperm},
		{"add_key", unix.SYS_ADD_KEY, x(bad, bad), eperm},
		{"request_key", unix.SYS_REQUEST_KEY, x(bad, bad), eperm},
		{"keyctl", unix.SYS_KEYCTL, x(none), eperm},
		{"kexec_load", unix.SYS_KEXEC_LOAD, x(0, 1000, bad), eperm},
		{"reboot", unix.SYS_REBOOT, x(0, 0, 0), eperm},
		{"init_module", unix.SYS_INIT_MODULE, x(bad, 0, bad), eperm},
		{"finit_module", unix.SYS_FINIT_MODULE, x(none, bad), eperm},
		{"delete_module", unix.SYS_DELETE_MODULE, x(bad), eperm},
		{"acct", unix.SYS_ACCT, x(bad), eperm},
		{"swapon", unix.SYS_SWAPON, x(bad), eperm},
		{"swapoff", unix.SYS_SWAPOFF, x(bad), eperm},
		{"quotactl", unix.SYS_QUOTACTL, x(none, bad), eperm},
		{"syslog", unix.SYS_SYSLOG, x(10), eperm}, // size of the buffer
		{"clock_settime", unix.SYS_CLOCK_SETTIME, x(none, bad), eperm},
		{"settimeofday", unix.SYS_SETTIMEOFDAY, x(bad, bad), eperm},
		{"sethostname", unix.SYS_SETHOSTNAME, x(bad, none), eperm},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, x(none), eperm},
		{"kcmp", unix.SYS_KCMP, x(none), eperm},
		{"TIOCSTI", unix.SYS_IOCTL, x(none, unix.TIOCSTI, bad), eperm},
		{"TIOCSTI in disguise", unix.SYS_IOCTL, x(none, 1<<32|unix.TIOCSTI, bad), eperm},
		{"TIOCLINUX", unix.SYS_IOCTL, x(none, unix.TIOCLINUX, bad), eperm},
		{"TIOCSETD", unix.SYS_IOCTL, x(none, unix.TIOCSETD, bad), eperm},
		{"ADDR_NO_RANDOMIZE", unix.SYS_PERSONALITY, x(0x0040000), eperm},
		{"prlimit of init", unix.SYS_PRLIMIT64, x(1, unix.RLIMIT_NOFILE, bad), eperm},
		{"priority of init", unix.SYS_SETPRIORITY, x(none, 1), eperm},
		{"affinity of init", unix.SYS_SCHED_SETAFFINITY, x(1, 8, bad), eperm},
		{"ptrace", unix.SYS_PTRACE, x(none), eperm},
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, x(1, bad, 1, bad, 1), eperm},
		{"x32 getpid", 0x40000000 | 39, x(), enosys},
		{"a call of the future", 5000, x(), enosys},
		{"netlink uevents", unix.SYS_SOCKET, x(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT), noFamily},
		{"sctp", unix.SYS_SOCKET, x(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP), noProto},
		{"tipc pair", unix.SYS_SOCKETPAIR, x(unix.AF_TIPC, unix.SOCK_STREAM, 0, bad), noFamily},
	}
	for family := uintptr(0); family < unix.AF_MAX+2; family++ {
		switch family {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK:
		default:
			list = append(list, attempt{fmt.Sprint("socket family ", family), unix.SYS_SOCKET, x(family, unix.SOCK_DGRAM|1<<32), noFamily})
		}
	}
	return list
}

// attemptAll makes every attempt in this process and returns the results.
func attemptAll() map[string]int {
	out := map[string]int{}
	for _, a := range attempts() {
		_, _, e := unix.RawSyscall6(a.number, a.args[0], a.args[1], a.args[2], a.args[3], a.args[4], a.args[5])
		out[a.name] = int(e)
	}
	return out
}

func TestKernelDeniesEachFamily(t *testing.T) {
	out, status := self(t, "attempts")
	if status != 0 {
		t.Fatalf("the program ended with %#x: %s", status, out)
	}
	var got map[string]int
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	for _, a := range attempts() {
		if unix.Errno(got[a.name]) != a.errno {
			t.Errorf("%s: got %v, want %v", a.name, unix.Errno(got[a.name]), a.errno)
		}
	}
}

// int80 requests the process id through the entry point of 32-bit programs.
func int80() {
	code := []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3} // mov eax, getpid; int 0x80; ret
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	copy(page, code)
	entry := uintptr(unsafe.Pointer(&page[0]))
	closure := &entry
	(*(*func())(unsafe.Pointer(&closure)))()
	fmt.Println("survived")
}

func TestKernelKillsForeignArchitecture(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("int 0x80 is an instruction of amd64")
	}
	out, status := self(t, "int80")
	if !status.Signaled() || status.Signal() != syscall.SIGSYS {
		t.Errorf("got status %#x, want SIGSYS: %s", status, out)
	}
}

// goProgram is an ordinary program: threads, a subprocess, interfaces and a loopback connection.
func goProgram() {
	check := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			runtime.LockOSThread() // never unlocked: each goroutine keeps its thread
			_, err := os.ReadFile("/proc/self/status")
			check(err)
		})
	}
	all.Wait()
	interfaces, err := net.Interfaces()
	check(err)
	if len(interfaces) == 0 {
		check(fmt.Errorf("no interfaces"))
	}
	_, err = net.InterfaceAddrs()
	check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() {
		c, err := l.Accept()
		check(err)
		c.Close()
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	check(err)
	c.Close()
	out, err := exec.Command("/bin/sh", "-c", "echo child | tr a-z A-Z").Output()
	check(err)
	fmt.Print("fine ", string(out))
}

const pythonProgram = `
import socket, subprocess, tempfile, threading, os, mmap, select, sys
ts = [threading.Thread(target=lambda: sum(range(1000))) for _ in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
assert socket.if_nameindex()
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); s.close()
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
assert subprocess.run(["/bin/sh", "-c", "exit 3"]).returncode == 3
pid = os.fork()
if pid == 0: os._exit(0)
os.waitpid(pid, 0)
with tempfile.TemporaryFile() as f:
    f.write(b"y" * 4096); f.flush(); mmap.mmap(f.fileno(), 0).close()
select.epoll().close()
print("fine")
`

func TestOrdinaryProgramsWork(t *testing.T) {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	t.Run("shell", func(t *testing.T) {
		out, status := confined(t, "/bin/sh", []string{"sh", "-c", "ls / | sort | head -n 1 >/dev/null && (sleep 0 & wait) && echo fine"}, env)
		if status != 0 || out != "fine\n" {
			t.Errorf("status %#x, printed %q", status, out)
		}
	})
	t.Run("go", func(t *testing.T) {
		out, status := self(t, "program")
		if status != 0 || out != "fine CHILD\n" {
			t.Errorf("status %#x, printed %q", status, out)
		}
	})
	t.Run("python", func(t *testing.T) {
		path := need.Program(t, "python3")
		out, status := confined(t, path, []string{path, "-c", pythonProgram}, os.Environ())
		if status != 0 || out != "fine\n" {
			t.Errorf("status %#x, printed %q", status, out)
		}
	})
}

func BenchmarkRunConfined(b *testing.B) {
	f, err := Sandbox(Options{SharedUID: true})
	if err != nil {
		b.Fatal(err)
	}
	for name, programs := range map[string][]Program{"none": nil, "agent": {f.Agent}, "both": {f.Agent, f.Exec}} {
		b.Run(name, func(b *testing.B) {
			p := forkexec.New()
			for _, program := range programs {
				program.Append(p)
			}
			p.Exec("/bin/true", []string{"true"}, nil)
			for b.Loop() {
				c, err := p.Start(forkexec.Options{})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := unix.Wait4(c.Pid, nil, 0, nil); err != nil {
					b.Fatal(err)
				}
				unix.Close(c.PidFD)
			}
		})
	}
}
