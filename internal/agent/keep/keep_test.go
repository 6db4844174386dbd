//go:build linux

package keep_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/keep"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/sockdir"
)

// patience limits each wait of a test, on a slow and busy machine.
const patience = time.Minute

// This binary is also the other processes of the tests, selected by its first argument.
const (
	asKeep    = "test-keep"
	asMaker   = "test-maker"   // makes a sandbox: an agent that outlives it
	asAgent   = "test-agent"   // echoes every stream
	asFailure = "test-failure" // makes none
	asNothing = "test-nothing" // makes none either, and reports success
	asOrder   = "test-order"   // writes into descriptor 3, or fails
	asSlow    = "test-slow"    // an order that never ends
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case asKeep:
			if err := keep.Run([]byte(os.Args[2])); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(125)
			}
			os.Exit(0)
		case asMaker:
			os.Exit(status(makeAgent(os.Args[2])))
		case asAgent:
			os.Exit(status(echo()))
		case asFailure:
			fmt.Fprintln(os.Stderr, "no sandbox today")
			os.Exit(3)
		case asNothing:
			os.Exit(0)
		case asOrder:
			os.Exit(status(carryOut(os.Args[2])))
		case asSlow:
			select {}
		}
	}
	os.Exit(m.Run())
}

func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// makeAgent starts the agent, writes its pid to a file, and leaves it to be adopted.
func makeAgent(pidFile string) error {
	agent := exec.Command("/proc/self/exe", asAgent)
	agent.Stdin, agent.Stdout, agent.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := agent.Start(); err != nil {
		return err
	}
	return os.WriteFile(pidFile, []byte(strconv.Itoa(agent.Process.Pid)), 0o600)
}

type stdio struct{}

func (stdio) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return os.Stdin.Close() }

// echo is an agent that ends on a command line of its own.
func echo() error {
	l := wire.NewMuxAgent(stdio{})
	for {
		conn, err := l.Accept()
		if err != nil {
			return nil // the host has gone
		}
		go func() {
			defer conn.Close()
			var b [4096]byte
			for {
				n, err := conn.Read(b[:])
				if string(b[:n]) == "end\n" {
					fmt.Fprint(os.Stderr, "last words")
					os.Exit(7)
				}
				if _, werr := conn.Write(b[:n]); err != nil || werr != nil {
					return
				}
			}
		}()
	}
}

func carryOut(what string) error {
	if what == "fail" {
		return errors.New("it cannot be done")
	}
	return os.WriteFile("/proc/self/fd/3/done", []byte(what), 0o600)
}

// kept is a keep under test.
type kept struct {
	t        *testing.T
	dir      string
	cmd      *exec.Cmd
	lifeline *os.File
	report   keep.Report
	ended    chan error
}

// start starts a keep and waits for its report.
func start(t *testing.T, program ...string) *kept {
	t.Helper()
	k := &kept{t: t, dir: sockdir.New(t), ended: make(chan error, 1)}
	listen := func(name string) *os.File {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(k.dir, name)})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		l.SetUnlinkOnClose(false)
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	streams, orders := listen("streams"), listen("orders")
	last, err := os.Create(filepath.Join(k.dir, "last"))
	if err != nil {
		t.Fatal(err)
	}
	readyOut, readyIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer readyOut.Close()
	var line *os.File
	if line, k.lifeline, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(k.dir, "pid")
	if len(program) == 0 {
		program = []string{asMaker, pidFile}
	}
	config, err := json.Marshal(keep.Config{
		StreamFD: 3, OrderFD: 4, LastFD: 5, ReadyFD: 6, LifelineFD: 7, PidFile: pidFile, Start: append([]string{self}, program...),
		Orders: map[string][]string{"do": {self, asOrder, "did"}, "fail": {self, asOrder, "fail"}, "slow": {self, asSlow}},
	})
	if err != nil {
		t.Fatal(err)
	}
	k.cmd = exec.Command(self, asKeep, string(config))
	k.cmd.ExtraFiles = []*os.File{streams, orders, last, readyIn, line}
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		k.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		k.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	}
	if err := k.cmd.Start(); err != nil {
		need.Missing(t, "process namespaces: %v", err)
	}
	for _, f := range k.cmd.ExtraFiles {
		f.Close()
	}
	go func() { k.ended <- k.cmd.Wait() }()
	t.Cleanup(func() {
		k.cmd.Process.Kill()
		k.wait()
		k.lifeline.Close()
	})
	text, err := io.ReadAll(readyOut)
	if err != nil || json.Unmarshal(text, &k.report) != nil {
		t.Fatalf("it reports %q, %v", text, err)
	}
	return k
}

// wait returns how the process ended.
func (k *kept) wait() error {
	k.t.Helper()
	select {
	case err := <-k.ended:
		k.ended <- err
		return err
	case <-time.After(patience):
		k.t.Fatal("the keep does not end")
	}
	return nil
}

func (k *kept) dial() *net.UnixConn { return k.dialTo("streams") }

func (k *kept) dialTo(name string) *net.UnixConn {
	k.t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(k.dir, name)})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func (k *kept) last() (l keep.Last) {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(k.dir, "last"))
	if err != nil || json.Unmarshal(text, &l) != nil {
		k.t.Errorf("its last words are %q, %v", text, err)
	}
	return l
}

// order sends an order and returns the report.
func (k *kept) order(name string, file *os.File) (r keep.Report) {
	k.t.Helper()
	conn := k.dialTo("orders")
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	if _, _, err := conn.WriteMsgUnix([]byte(fmt.Sprintf(`{"order":%q}`, name)), rights, nil); err != nil {
		k.t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil || json.Unmarshal(text, &r) != nil {
		k.t.Fatalf("the answer to %s is %q, %v", name, text, err)
	}
	return r
}

func TestStreams(t *testing.T) {
	k := start(t)
	if k.report.Error != "" {
		t.Fatal(k.report.Error)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			conn := k.dial()
			sent := bytes.Repeat([]byte(strconv.Itoa(i)), 1<<20)
			go conn.Write(sent)
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes come back otherwise: %v", len(sent), err)
			}
			conn.Close()
		})
	}
	all.Wait()
	// More streams, one after the other, than may be open at once.
	for range 2 * wire.MaxMuxStreams {
		conn := k.dial()
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

func TestEndsWithItsAgent(t *testing.T) {
	k := start(t)
	if _, err := k.dial().Write([]byte("end\n")); err != nil {
		t.Fatal(err)
	}
	if err := k.wait(); err != nil {
		t.Error(err)
	}
	if l := k.last(); l.Code != 7 || l.Signal != 0 || !strings.Contains(l.Detail, "last words") {
		t.Errorf("%+v", l)
	}
}

func TestEndsWithItsCreator(t *testing.T) {
	k := start(t)
	if err := k.lifeline.Close(); err != nil {
		t.Fatal(err)
	}
	if err := k.wait(); err != nil {
		t.Error(err)
	}
	if l := k.last(); l.Code != -1 || !strings.Contains(l.Detail, "creator") {
		t.Errorf("%+v", l)
	}
}

func TestSaysHowItsAgentWasKilled(t *testing.T) {
	k := start(t)
	if r := k.order("slow-unknown", nil); !strings.Contains(r.Error, "slow-unknown") {
		t.Errorf("%+v", r)
	}
	k.order("fail", nil) // after the agent has become the keep's own child
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", k.cmd.Process.Pid))
	if err != nil || len(lists) == 0 {
		need.Missing(t, "lists of children in /proc: %v", err)
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // of one thread
		for _, field := range strings.Fields(string(children)) {
			pid, _ := strconv.Atoi(field)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := k.wait(); err != nil {
		t.Error(err)
	}
	if l := k.last(); l.Signal != int(syscall.SIGKILL) {
		t.Errorf("%+v", l)
	}
}

func TestMakerFails(t *testing.T) {
	k := start(t, asFailure)
	if !strings.Contains(k.report.Error, "no sandbox today") || !strings.Contains(k.report.Error, "status 3") {
		t.Errorf("%+v", k.report)
	}
	if err := k.wait(); err == nil {
		t.Error("it ends as if nothing were wrong")
	}
	if k := start(t, asNothing); k.report.Error == "" {
		t.Error("an agent that never answers is ready")
	}
}

func TestOrders(t *testing.T) {
	k := start(t)
	dir := t.TempDir()
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if r := k.order("do", folder); r.Error != "" {
		t.Error(r.Error)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "done")); string(got) != "did" {
		t.Errorf("%q, %v", got, err)
	}
	if r := k.order("fail", nil); !strings.Contains(r.Error, "it cannot be done") || !strings.Contains(r.Error, "status 1") {
		t.Errorf("%+v", r)
	}
	// After its caller has gone, the program ends within a time limit, and the next order runs.
	conn := k.dialTo("orders")
	if _, err := conn.Write([]byte(`{"order":"slow"}`)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if r := k.order("fail", nil); r.Error == "" {
		t.Error("it has failed no more")
	}
	for _, nonsense := range []string{"{", "[]", `{"order":7}`, strings.Repeat("x", 20<<10)} {
		conn := k.dialTo("orders")
		conn.Write([]byte(nonsense))
		conn.CloseWrite()
		if text, err := io.ReadAll(conn); err == nil && !bytes.Contains(text, []byte("error")) {
			t.Errorf("%.20q is answered with %q", nonsense, text)
		}
	}
	if r := k.order("do", folder); r.Error != "" {
		t.Error(r.Error)
	}
}

func TestIsFirst(t *testing.T) {
	err := keep.Run([]byte(`{"stream_fd":3,"ready_fd":4,"start":["/bin/true"]}`))
	if err == nil || !strings.Contains(err.Error(), "first process") {
		t.Errorf("%v", err)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"stream_fd":3,"ready_fd":4,"start":["/runsc","run"],"orders":{"pause":["/runsc"]},"pid_file":"/pid"}`))
	f.Add([]byte(`{"stream_fd":-1}`))
	f.Add([]byte(`{"stream_fd":3,"ready_fd":4,"start":[""],"orders":{"x":[]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := keep.ParseConfig(text)
		if err != nil {
			return
		}
		if cfg.StreamFD <= 2 || cfg.ReadyFD <= 2 || len(cfg.Start) == 0 || cfg.LastFD < 0 {
			t.Errorf("%+v", cfg)
		}
		for name, argv := range cfg.Orders {
			if len(argv) == 0 || argv[0] == "" {
				t.Errorf("order %q has no program", name)
			}
		}
	})
}
