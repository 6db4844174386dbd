//go:build linux

// Package dockerd starts a Docker engine for tests: a private one, on a socket in a folder of its own, never the machine's. It has
// no network, and leaves no files when it is stopped.
//
//	func TestMain(m *testing.M) { os.Exit(dockerd.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		engine := dockerd.Start(t) // the same for all tests of the process
//		image := engine.Busybox(t)
package dockerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/test/need"
)

// startTime limits the start of an engine on a slow and busy machine.
const startTime = 3 * time.Minute

// Engine is a Docker engine that belongs to the tests.
type Engine struct {
	dir    string
	flags  []string
	who    who
	client *http.Client

	mu      sync.Mutex // guards the fields below
	process *process
	images  map[string]bool
}

// process is one life of an engine's daemon.
type process struct {
	pid    int
	exited chan struct{}
}

var shared struct {
	sync.Mutex
	engine *Engine
}

// Main runs the tests of a package and then stops the engine that they may have started. It returns the exit status.
func Main(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.engine != nil {
		if err := shared.engine.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "dockerd:", err)
			return max(code, 1)
		}
	}
	return code
}

// Start returns the engine of this process, for a package whose TestMain is [Main]. If the machine cannot run one, the test is
// skipped; as root on Debian, where an engine is expected, it fails.
func Start(t testing.TB) *Engine {
	t.Helper()
	require(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.engine == nil {
		e, err := start(asRoot)
		if err != nil {
			t.Fatal(err)
		}
		shared.engine = e
	}
	return shared.engine
}

// New returns a separate engine for a test whose effects other tests must not see: a killed engine, or flags. It is stopped with
// the test.
func New(t testing.TB, flags ...string) *Engine {
	t.Helper()
	return own(t, asRoot, flags...)
}

// NewMapped is [New] for an engine whose containers have a user namespace with 65,536 ids, in which root is another user. It does
// not change the machine's own table of subordinate ids.
func NewMapped(t testing.TB, flags ...string) *Engine {
	t.Helper()
	return own(t, asRemapper, append(flags, "--userns-remap", "nobody:nogroup")...)
}

// NewRootless is [New] for a rootless engine: it runs as an unprivileged user, in that user's own user namespace. It ends the test
// if users may not have one.
func NewRootless(t testing.TB, flags ...string) *Engine {
	t.Helper()
	require(t)
	if out, err := unprivileged(); err != nil {
		need.Missing(t, "user namespaces with subordinate ids for users: %v\n%s", err, out)
	}
	return own(t, asOrdinaryUser, append(flags, "--rootless", "--userland-proxy=false")...)
}

func own(t testing.TB, as who, flags ...string) *Engine {
	t.Helper()
	require(t)
	e, err := start(as, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.stop(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func require(t testing.TB) {
	t.Helper()
	need.Root(t)
	need.Program(t, "dockerd")
}

// short returns a folder with a short name for temporary folders.
func short() string {
	if dir := os.TempDir(); len(dir) < 40 {
		return dir
	}
	return "/tmp"
}

// start makes an engine. Its folder has a short name: the path of a socket has at most 107 bytes.
func start(as who, flags ...string) (*Engine, error) {
	dir, err := os.MkdirTemp(short(), "dockerd")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // an engine with a user namespace accesses it as another user
		return nil, err
	}
	if as == asOrdinaryUser {
		if err := os.Chown(dir, rootlessID, rootlessID); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	e := &Engine{dir: dir, flags: flags, who: as, images: map[string]bool{}}
	e.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", e.Socket())
	}}}
	if err := e.run(); err != nil {
		return nil, errors.Join(err, e.stop())
	}
	return e, nil
}

// Socket is the path of the engine's socket.
func (e *Engine) Socket() string { return filepath.Join(e.dir, "docker.sock") }

// Host is the engine's address, as DOCKER_HOST has it.
func (e *Engine) Host() string { return "unix://" + e.Socket() }

// run starts the daemon and returns when it responds.
func (e *Engine) run() error {
	name := strconv.Itoa(os.Getpid()) + "-" + filepath.Base(e.dir)
	args := append([]string{
		"--data-root", filepath.Join(e.dir, "data"), "--exec-root", filepath.Join(e.dir, "exec"), "--pidfile", filepath.Join(e.dir, "pid"),
		"--host", e.Host(), "--config-file", filepath.Join(e.dir, "none.json"), "--containerd-namespace", name, "--containerd-plugins-namespace", name + "-plugins",
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
	}, e.flags...)
	none := filepath.Join(e.dir, "none.json")
	if err := errors.Join(os.WriteFile(none, []byte("{}"), 0o644), os.Chmod(none, 0o644)); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, err := e.who.command(e.dir, args)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	// If the tests are killed, the daemon ends, too. The kernel ties that to the thread that starts it, so that thread must live on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	started := make(chan error, 1)
	p := &process{exited: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // its log has the exit status
		}
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	e.mu.Lock()
	e.process = p
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	for {
		if _, err := e.call(ctx, http.MethodGet, "/_ping", nil, nil); err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("dockerd ends at its start:\n%s", e.Log())
		case <-ctx.Done():
			return fmt.Errorf("dockerd does not answer:\n%s", e.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Log returns the end of the daemon's log.
func (e *Engine) Log() string {
	text, _ := os.ReadFile(filepath.Join(e.dir, "log"))
	return string(text[max(0, len(text)-4000):])
}

// Stop ends the daemon as an operator would, and returns when it has ended.
func (e *Engine) Stop(t testing.TB) {
	t.Helper()
	if err := e.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the daemon as a crash would, and returns when it has ended.
func (e *Engine) Kill(t testing.TB) {
	t.Helper()
	if err := e.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := e.endContainerd(); err != nil {
		t.Fatal(err)
	}
}

// endContainerd ends the containerd of a killed daemon, which the kernel should have killed with it. The next daemon checks only
// its pid, and would treat even a zombie as alive.
func (e *Engine) endContainerd() error {
	file := filepath.Join(e.dir, "exec", "containerd", "containerd.pid")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil // it had none
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for deadline := time.Now().Add(startTime); slices.Contains(e.children(), pid); time.Sleep(5 * time.Millisecond) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		if time.Now().After(deadline) {
			return fmt.Errorf("containerd %d does not end", pid)
		}
	}
	return os.Remove(file)
}

// Again starts the daemon after Stop or Kill, over the same data.
func (e *Engine) Again(t testing.TB) {
	t.Helper()
	if err := e.run(); err != nil {
		t.Fatal(err)
	}
}

// Freeze stops the daemon's processes, like a machine without free processor time. The returned function resumes them, and may be
// called twice.
func (e *Engine) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	e.mu.Lock()
	pid := e.process.pid
	e.mu.Unlock()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	thaw = func() { once.Do(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) }
	t.Cleanup(thaw)
	return thaw
}

func (e *Engine) signal(sig syscall.Signal) error {
	e.mu.Lock()
	p := e.process
	e.process = nil
	e.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.exited:
		return nil
	default:
	}
	if err := syscall.Kill(p.pid, sig); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(startTime):
		return fmt.Errorf("dockerd does not end:\n%s", e.Log())
	}
}

// stop removes all containers, ends the engine, and removes its folder.
func (e *Engine) stop() error {
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	e.mu.Lock()
	running := e.process != nil
	e.mu.Unlock()
	if running {
		errs = append(errs, e.empty(ctx))
	}
	errs = append(errs, e.signal(syscall.SIGTERM))
	e.client.CloseIdleConnections()
	errs = append(errs, e.endChildren())
	for _, point := range e.mounts() {
		_ = unix.Unmount(point, unix.MNT_DETACH)
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

// endChildren ends the remaining processes of a killed daemon, and returns when they have ended: until then they may write to the
// folder.
func (e *Engine) endChildren() error {
	for deadline := time.Now().Add(startTime); ; time.Sleep(5 * time.Millisecond) {
		left := e.children()
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of the engine do not end", left)
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// empty removes every container.
func (e *Engine) empty(ctx context.Context) error {
	text, err := e.call(ctx, http.MethodGet, "/containers/json?all=1", nil, nil)
	if err != nil {
		return err
	}
	var list []struct{ Id string }
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, c := range list {
		if _, err := e.call(ctx, http.MethodDelete, "/containers/"+c.Id+"?force=1&v=1", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// children returns the processes that the engine has started, which have its folder in their arguments.
func (e *Engine) children() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		text, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		program, rest, _ := bytes.Cut(text, []byte{0})
		ours := strings.Contains(string(program), "containerd") || strings.HasSuffix(string(program), "runc")
		if ours && bytes.Contains(rest, []byte(e.dir+"/")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// mounts returns the mount points below the engine's folder, the deepest first.
func (e *Engine) mounts() (points []string) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], e.dir+"/") {
			points = append(points, fields[4])
		}
	}
	slices.Reverse(points)
	return points
}

// call sends a request to the engine, and returns its response.
func (e *Engine) call(ctx context.Context, method, path string, query url.Values, body io.Reader) ([]byte, error) {
	if query != nil {
		path += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://docker/v1.40"+path, body)
	if err != nil {
		return nil, err
	}
	if path == "/_ping" {
		req.URL.Path = path
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-tar")
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("dockerd answers %s %s with %s: %s", method, path, resp.Status, bytes.TrimSpace(text))
	}
	return text, err
}
