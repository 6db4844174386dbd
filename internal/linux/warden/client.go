//go:build linux

package warden

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/lockfile"
)

// Client makes sure that there is one warden process for all clients with the same path, and sends it requests. Its methods
// are safe for concurrent use.
type Client struct {
	path    string
	program func() (*os.File, error)
	own     bool

	mu      sync.Mutex
	closed  bool
	conn    net.Conn
	answers chan reply    // of conn; closed when conn ends
	ended   chan struct{} // closed when the warden that this client started last has ended; nil if it started none
	watched map[string]Group
	pruned  int // number of groups after the last prune
}

// patience bounds the wait for a warden's answer.
const patience = 10 * time.Second

// NewClient prepares a client. The socket is at path; a missing folder is made. program returns the program that implements
// [Command]. It touches nothing before the first call. The caller must close the client.
func NewClient(path string, program func() (*os.File, error)) *Client {
	return &Client{path: path, program: program, watched: map[string]Group{}}
}

// NewOwnClient prepares a client with its own warden, at a path that no other has. The warden ends with the client.
func NewOwnClient(path string, program func() (*os.File, error)) *Client {
	c := NewClient(path, program)
	c.own = true
	return c
}

// Start starts the warden in the background, unless there is one. The next call waits for it, and retries if it fails.
func (c *Client) Start() {
	go func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = c.connect()
	}()
}

// Close disconnects. A shared warden continues to watch its groups; the client's own warden ends.
func (c *Client) Close() error { return c.End()() }

// End is [Client.Close], but the returned function waits for the end of the client's own warden.
func (c *Client) End() (wait func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		c.hangUp()
	}
	ended := c.ended
	return func() error {
		if !c.own || ended == nil {
			return nil
		}
		select {
		case <-ended:
			return nil
		case <-time.After(patience):
			return errors.New("the warden of memory limits does not end")
		}
	}
}

// Watch is [Warden.Watch]. When it returns nil, the group is watched.
func (c *Client) Watch(g Group) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.ask(request{Watch: &g}); err != nil {
		return fmt.Errorf("watch memory: %w", err)
	}
	c.watched[g.Dir] = g
	if len(c.watched) > 2*c.pruned+64 {
		c.prune()
	}
	return nil
}

// Figures is [Warden.Figures].
func (c *Client) Figures(dir string) (Figures, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.ask(request{Figures: dir})
	return a.Figures, err
}

// prune drops groups that are gone.
func (c *Client) prune() {
	for dir := range c.watched {
		if inodeOf(dir) == 0 {
			delete(c.watched, dir)
		}
	}
	c.pruned = len(c.watched)
}

// ask sends a request. If the warden ends meanwhile, it starts another one.
func (c *Client) ask(q request) (a reply, err error) {
	for range 3 {
		if err = c.connect(); err != nil {
			return reply{}, err
		}
		if a, err = c.exchange(q); err == nil {
			if a.Error != "" {
				return a, errors.New(a.Error)
			}
			return a, nil
		}
	}
	return reply{}, err
}

// exchange sends a request and waits for the answer.
func (c *Client) exchange(q request) (reply, error) {
	text, err := json.Marshal(q)
	if err == nil {
		_, err = c.conn.Write(append(text, '\n'))
	}
	if err == nil {
		select {
		case a, ok := <-c.answers:
			if ok {
				return a, nil
			}
			err = errors.New("the warden of memory limits has ended")
		case <-time.After(patience):
			err = errors.New("the warden of memory limits does not answer")
		}
	}
	c.hangUp()
	return reply{}, err
}

func (c *Client) hangUp() {
	c.conn.Close()
	c.conn = nil
}

// connect finds or starts the warden, and sends it the groups to watch.
func (c *Client) connect() error {
	if c.closed {
		return os.ErrClosed
	}
	if c.conn != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	lock, err := lockfile.Open(lockOf(c.path), os.O_RDWR|os.O_CREATE, unix.LOCK_EX)
	if err != nil {
		return fmt.Errorf("lock %s: %w", c.path, err)
	}
	defer lock.Close()
	dir, err := os.Open(filepath.Dir(c.path))
	if err != nil {
		return err
	}
	defer dir.Close()
	// Use the folder's descriptor: a long path does not fit into an address.
	name := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(c.path)
	conn, err := net.Dial("unix", name)
	if err != nil {
		if err = c.start(name); err == nil {
			conn, err = net.Dial("unix", name)
		}
	}
	if err != nil {
		return fmt.Errorf("start the warden of memory limits: %w", err)
	}
	c.conn, c.answers = conn, make(chan reply, 1)
	go c.listen(conn, c.answers)
	c.prune()
	for _, g := range c.watched {
		if _, err := c.exchange(request{Watch: &g}); err != nil {
			return err
		}
	}
	return nil
}

// start starts a warden that listens at name.
func (c *Client) start(name string) error {
	program, err := c.program()
	if err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	socket, err := l.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	config, err := json.Marshal(Config{ListenFD: 3, Path: c.path, Own: c.own})
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/fd/4", Command, string(config))
	cmd.Args[0] = "belljar-agent"
	// A thread that returns from a wait needs one of Go's processors, and other waiting threads may keep theirs.
	cmd.Env = []string{"TZ=", "GOMAXPROCS=6", "GOTRACEBACK=none", "GOMEMLIMIT=64MiB"}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{socket, program}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	c.ended = ended
	go func() {
		cmd.Wait() // the warden may end before us
		close(ended)
	}()
	return nil
}

// listen receives the answers of a connection. If the connection ends between requests, the warden has ended, and listen
// starts another one.
func (c *Client) listen(conn net.Conn, answers chan<- reply) {
	in := json.NewDecoder(conn)
	for {
		var a reply
		if in.Decode(&a) != nil {
			break
		}
		answers <- a
	}
	close(answers)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == conn {
		c.hangUp()
		_ = c.connect() // if this fails, the next call retries
	}
}
