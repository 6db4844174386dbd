//go:build linux

package keep

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

// maxOrder limits messages on the second socket, in both directions.
const maxOrder = 8 << 10

// order is a request on the second socket, with at most one descriptor, which the program gets as number 3. A [Report] follows
// when the program has ended. If the caller disconnects earlier, the program has [patience] to end, so that a dying daemon does
// not leave work half done.
type order = wire.KeepOrder

// patience is how long a program may continue without its caller.
const patience = 15 * time.Second

// serveOrders takes orders, one at a time.
func (k *keep) serveOrders(l *net.UnixListener) {
	var one sync.Mutex
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			if outOfResources(err) && pause(k.over) {
				continue
			}
			return
		}
		go func() {
			defer conn.Close()
			one.Lock()
			defer one.Unlock()
			var a Report
			if err := k.execute(conn); err != nil {
				a.Error = err.Error()
			}
			if text, err := json.Marshal(a); err == nil {
				_, _ = conn.Write(text) // the caller may have gone
			}
		}()
	}
}

// execute reads an order and runs its program.
func (k *keep) execute(conn *net.UnixConn) error {
	o, file, err := readOrder(conn)
	if err != nil {
		return err
	}
	if file != nil {
		defer file.Close()
	}
	argv := k.cfg.Orders[o.Name]
	if argv == nil {
		return fmt.Errorf("no order %q is known", o.Name)
	}
	// The caller sends no more data after its order, so a read returns when it disconnects.
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = conn.Read(make([]byte, 1))
	}()
	select {
	case <-k.exited:
	case <-gone:
		return errors.New("the caller has disconnected")
	}
	if k.status != 0 {
		return errors.New("the sandbox did not start")
	}
	stderr, end, err := k.captureStderr()
	if err != nil {
		return err
	}
	files := []uintptr{k.null.Fd(), k.null.Fd(), uintptr(end)}
	if file != nil {
		files = append(files, file.Fd())
	}
	pid, err := k.children.start(argv, files)
	unix.Close(end)
	if err != nil {
		stderr.stop()
		return err
	}
	late := make(chan struct{})
	go func() {
		<-gone // closing the connection ends the read
		time.AfterFunc(patience, func() { close(late) })
	}()
	status, ok := k.children.wait(pid, late)
	if !ok {
		_ = unix.Kill(pid, unix.SIGKILL)
		k.children.wait(pid, nil)
		return fmt.Errorf("killed: it had not finished %v after its caller disconnected", patience)
	}
	words := stderr.failure()
	if status != 0 {
		return errors.New(describe(status, words))
	}
	return nil
}

func readOrder(conn *net.UnixConn) (o order, file *os.File, err error) {
	text, rights := make([]byte, maxOrder), make([]byte, unix.CmsgSpace(4))
	n, rn, _, _, err := conn.ReadMsgUnix(text, rights)
	if err != nil {
		return o, nil, fmt.Errorf("read an order: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rn])
	if err != nil {
		return o, nil, fmt.Errorf("read an order: %w", err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			if file != nil {
				unix.Close(fd)
				continue
			}
			file = os.NewFile(uintptr(fd), "order")
		}
	}
	if err := json.Unmarshal(text[:n], &o); err != nil {
		if file != nil {
			file.Close()
		}
		return o, nil, fmt.Errorf("malformed order: %w", err)
	}
	return o, file, nil
}

// describe describes how a program ended, by its own error output if there is any.
func describe(status unix.WaitStatus, stderr string) string {
	how := fmt.Sprintf("it ended with status %d", status.ExitStatus())
	if status.Signaled() {
		how = "it was killed by " + status.Signal().String()
	}
	if stderr = strings.TrimSpace(stderr); stderr != "" {
		return stderr + " (" + how + ")"
	}
	return how
}

// outOfResources reports whether an error means a temporary lack of resources: ENOSPC is of epoll watches.
func outOfResources(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOSPC)
}

// pause waits briefly for resources. It returns false if over is closed meanwhile.
func pause(over <-chan struct{}) bool {
	select {
	case <-time.After(10 * time.Millisecond):
		return true
	case <-over:
		return false
	}
}
