//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// relayRole is the environment variable that makes the program one of the relay's two processes.
const relayRole = "BELLJAR_LOAD_RELAY"

// relay is the minimum between HTTP and a command: a front that forwards it, a worker that starts it, and a socket
// between them. It isolates, records and checks nothing.
type relay struct {
	dir           string
	front, worker *exec.Cmd
	url           string
	web           *http.Client
}

// relayed is a command and its outcome.
type relayed struct {
	Cmd  []string `json:"cmd,omitempty"`
	Code int      `json:"code"`
	Out  string   `json:"out"`
}

func startRelay() (r *relay, err error) {
	r = &relay{web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	if r.dir, err = os.MkdirTemp("", "belljar-relay-"); err != nil {
		return nil, err
	}
	socket := r.dir + "/worker.sock"
	if r.worker, _, err = relayProcess("worker", socket); err == nil {
		r.front, r.url, err = relayProcess("front", socket)
	}
	if err != nil {
		r.stop()
		return nil, fmt.Errorf("start the relay: %w", err)
	}
	return r, nil
}

// relayProcess starts this program in a role and waits for its first line.
func relayProcess(role, socket string) (*exec.Cmd, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), relayRole+"="+role+":"+socket)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	return cmd, strings.TrimSpace(line), err
}

func (r *relay) stop() {
	for _, cmd := range []*exec.Cmd{r.front, r.worker} {
		if cmd != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	os.RemoveAll(r.dir)
}

// run runs /bin/true.
func (r *relay) run(ctx context.Context) error {
	body, err := json.Marshal(relayed{Cmd: []string{"/bin/true"}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := r.web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var got relayed
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// beRelay runs one of the relay's processes, until it is killed.
func beRelay(is string) error {
	role, socket, _ := strings.Cut(is, ":")
	switch role {
	case "worker":
		l, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		for {
			conn, err := l.Accept()
			if err != nil {
				return err
			}
			go relayWork(conn)
		}
	case "front":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println("http://" + l.Addr().String())
		server := &http.Server{Handler: relayFront(socket), ReadHeaderTimeout: time.Minute}
		return server.Serve(l)
	}
	return errors.New("no such role: " + role)
}

// relayFront forwards each request over a separate connection.
func relayFront(socket string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req relayed
		err := json.NewDecoder(r.Body).Decode(&req)
		var conn net.Conn
		if err == nil {
			conn, err = net.Dial("unix", socket)
		}
		if err == nil {
			defer conn.Close()
			err = json.NewEncoder(conn).Encode(req)
		}
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			_, err = io.Copy(w, conn)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// relayWork starts one command and reports its outcome.
func relayWork(conn net.Conn) {
	defer conn.Close()
	var req relayed
	if err := json.NewDecoder(conn).Decode(&req); err != nil || len(req.Cmd) == 0 {
		return
	}
	cmd := exec.Command(req.Cmd[0], req.Cmd[1:]...)
	out, err := cmd.Output()
	done := relayed{Out: string(out)}
	if err != nil {
		done.Code = 1
	}
	_ = json.NewEncoder(conn).Encode(done)
}
