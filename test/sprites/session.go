//go:build linux

package sprites

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// The streams of a session without a terminal, as the first byte of each message.
const (
	stdin    = 0
	stdout   = 1
	stderr   = 2
	exit     = 3
	stdinEOF = 4
)

// scrollback is how much output a session sends again to clients that attach.
const scrollback = 64 << 10

// session is an exec session: a program that continues when its WebSocket breaks.
type session struct {
	id   string
	info []byte
	cmd  *exec.Cmd
	in   io.WriteCloser
	keep time.Duration // how long it runs without a client

	mu     sync.Mutex
	past   [][]byte // frames of output, at most scrollback bytes
	bytes  int
	client *websocket.Conn
	status *int
	alone  *time.Timer
	done   chan struct{}
}

// start starts a session, or lists all of them, or attaches to one as old versions of the API do.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		s.listSessions(w)
		return
	}
	q := r.URL.Query()
	if id := q.Get("id"); id != "" {
		s.join(w, r, id)
		return
	}
	keep, err := time.ParseDuration(q.Get("max_run_after_disconnect"))
	if len(q["cmd"]) == 0 || q.Get("tty") == "true" || err != nil {
		fail(w, http.StatusBadRequest, "cmd and max_run_after_disconnect are required, tty is not available")
		return
	}
	var args []string
	for _, a := range q["cmd"][1:] {
		args = append(args, s.Local(a))
	}
	x := &session{cmd: exec.Command(s.Local(q.Get("path")), args...), keep: keep, done: make(chan struct{})}
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, _ := x.cmd.StdoutPipe()
	bad, _ := x.cmd.StderrPipe()
	x.in, _ = x.cmd.StdinPipe()
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.next++
	x.id = strconv.Itoa(s.next)
	s.sessions[x.id] = x
	s.mu.Unlock()
	x.info, _ = json.Marshal(map[string]any{"type": "session_info", "session_id": s.next, "command": q["cmd"][0], "is_owner": true, "tty": false})
	if err := x.cmd.Start(); err != nil {
		status := 127
		x.status = &status
		close(x.done)
	} else {
		go x.follow(out, bad)
	}
	x.serve(r.Context(), conn)
}

// follow carries output until the program ends.
func (x *session) follow(out, bad io.Reader) {
	var both sync.WaitGroup
	both.Go(func() { x.carry(stdout, out) })
	both.Go(func() { x.carry(stderr, bad) })
	both.Wait()
	_ = x.cmd.Wait()
	status := x.cmd.ProcessState.ExitCode()
	if status < 0 {
		status = 137
	}
	x.mu.Lock()
	x.status = &status
	client := x.client
	x.mu.Unlock()
	close(x.done)
	if client != nil {
		x.leave(client)
	}
}

// leave reports to a client how the session ended. Like the real API, it does not close the connection
// immediately.
func (x *session) leave(client *websocket.Conn) {
	x.mu.Lock()
	status := byte(*x.status)
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = client.Write(ctx, websocket.MessageBinary, []byte{exit, status})
}

func (x *session) carry(kind byte, from io.Reader) {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b[1:])
		if n > 0 {
			b[0] = kind
			frame := append([]byte(nil), b[:n+1]...)
			x.mu.Lock()
			x.past = append(x.past, frame)
			for x.bytes += len(frame); x.bytes > scrollback; x.past = x.past[1:] {
				x.bytes -= len(x.past[0])
			}
			if x.client != nil {
				_ = x.client.Write(context.Background(), websocket.MessageBinary, frame)
			}
			x.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// serve serves one WebSocket to its end.
func (x *session) serve(ctx context.Context, conn *websocket.Conn) {
	defer conn.CloseNow()
	conn.SetReadLimit(8 << 20)
	x.mu.Lock()
	if x.alone != nil {
		x.alone.Stop()
	}
	if x.client != nil {
		x.client.CloseNow()
	}
	_ = conn.Write(ctx, websocket.MessageText, x.info)
	for _, frame := range x.past {
		_ = conn.Write(ctx, websocket.MessageBinary, frame)
	}
	x.client = conn
	over := x.status != nil
	x.mu.Unlock()
	if over {
		x.leave(conn)
	}
	for {
		kind, frame, err := conn.Read(ctx)
		if err != nil {
			break
		}
		if kind != websocket.MessageBinary || len(frame) == 0 {
			continue
		}
		switch frame[0] {
		case stdin:
			_, _ = x.in.Write(frame[1:])
		case stdinEOF:
			_ = x.in.Close()
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.client == conn {
		x.client = nil
		x.alone = time.AfterFunc(x.keep, func() { x.end(syscall.SIGKILL) })
	}
}

func (x *session) over() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status != nil
}

func (x *session) disconnect() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.client == nil {
		return 0
	}
	x.client.CloseNow()
	return 1
}

// end ends the program, waits, and reports whether it was running.
func (x *session) end(sig syscall.Signal) bool {
	if x.over() || x.cmd.Process == nil {
		return false
	}
	_ = syscall.Kill(-x.cmd.Process.Pid, sig)
	<-x.done
	return true
}

func (s *Server) session(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) { s.join(w, r, r.PathValue("id")) }

func (s *Server) join(w http.ResponseWriter, r *http.Request, id string) {
	x := s.session(id)
	if x == nil || x.over() {
		fail(w, http.StatusNotFound, "no such session")
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	x.serve(r.Context(), conn)
}

func (s *Server) kill(w http.ResponseWriter, r *http.Request) {
	x := s.session(r.PathValue("id"))
	switch {
	case x == nil:
		fail(w, http.StatusNotFound, "no such session")
	case !x.end(syscall.SIGKILL):
		fail(w, http.StatusGone, "the session has ended")
	default:
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, `{"type":"complete","exit_code":137}`+"\n")
	}
}

func (s *Server) listSessions(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []map[string]any{}
	for id, x := range s.sessions {
		if !x.over() {
			list = append(list, map[string]any{"id": id, "command": "belljar-agent", "tty": false, "is_active": true})
		}
	}
	answer(w, http.StatusOK, map[string]any{"sessions": list})
}
