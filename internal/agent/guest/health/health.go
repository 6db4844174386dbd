//go:build linux

// Package health is the workspace service of a machine that runs a sandbox for a server elsewhere. Two routes show the server that the
// machine is awake, that it is the right one, and that its agent is compatible. The agent serves files and programs over its own protocol.
//
// It implements only the part of HTTP/1.1 that it needs: package net/http would double the agent's size.
package health

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Command is the first argument of belljar-agent for this service; the second is the JSON of a [Config].
const Command = "workspace"

// Config is the configuration of the service.
type Config struct {
	Listen    string `json:"listen"`         // address, such as :8080
	Path      string `json:"path,omitempty"` // prefix of the routes, such as /internal/v1
	TokenFile string `json:"token_file"`     // file with the token that requests must carry
}

const (
	maxRequest = 8 << 10 // bytes of a request
	maxRest    = 1 << 20 // bytes that are read and dropped after a request
	maxConns   = 64      // simultaneous connections
	patience   = 10 * time.Second
)

// Run serves until the listener fails.
func Run(config []byte) error {
	var c Config
	if err := json.Unmarshal(config, &c); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	s, err := open(c)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	return s.Serve(l)
}

// Service answers health and version requests. Make one with [New].
type Service struct {
	prefix, token string
	places        chan struct{}
}

func open(c Config) (*Service, error) {
	token, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	return New(c.Path, strings.TrimSpace(string(token)))
}

// New returns a service. A token of less than 32 bytes is refused.
func New(prefix, token string) (*Service, error) {
	if len(token) < 32 {
		return nil, errors.New("the token has fewer than 32 bytes")
	}
	return &Service{prefix: strings.TrimSuffix(prefix, "/"), token: token, places: make(chan struct{}, maxConns)}, nil
}

// Serve answers the requests of l, one per connection. It closes l and waits for open requests.
func (s *Service) Serve(l net.Listener) error {
	var under sync.WaitGroup
	defer under.Wait()
	defer l.Close()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		s.places <- struct{}{}
		under.Go(func() {
			defer func() { <-s.places }()
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			s.answer(conn)
		})
	}
}

// request is the parsed part of a request.
type request struct{ method, path, authorization, id string }

func read(conn net.Conn) (r request, ok bool) {
	in := bufio.NewReaderSize(conn, maxRequest)
	left := maxRequest
	line := func() (string, bool) {
		b, err := in.ReadSlice('\n')
		left -= len(b)
		return strings.TrimRight(string(b), "\r\n"), err == nil && left >= 0
	}
	first, ok := line()
	parts := strings.Split(first, " ")
	if !ok || len(parts) != 3 || !strings.HasPrefix(parts[2], "HTTP/1.") {
		return r, false
	}
	r.method = parts[0]
	r.path, _, _ = strings.Cut(parts[1], "?")
	for {
		text, ok := line()
		if !ok {
			return r, false
		}
		if text == "" {
			return r, true
		}
		name, value, _ := strings.Cut(text, ":")
		switch value = strings.TrimSpace(value); strings.ToLower(name) {
		case "authorization":
			r.authorization = value
		case "x-request-id":
			if len(value) <= 128 && !strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
				r.id = value
			}
		}
	}
}

func (s *Service) answer(conn net.Conn) {
	r, ok := read(conn)
	status, body := "200 OK", ""
	path, below := strings.CutPrefix(r.path, s.prefix)
	switch {
	case !ok:
		status, body = "400 Bad Request", `{"detail":"bad request"}`
	case !same(r.authorization, "Bearer "+s.token):
		status, body = "401 Unauthorized", `{"detail":"unauthorized"}`
	case !below || path != "/healthz" && path != "/__meta/version":
		status, body = "404 Not Found", `{"detail":"not found"}`
	case r.method != "GET":
		status, body = "405 Method Not Allowed", `{"detail":"method not allowed"}`
	case path == "/healthz":
		body = `{"status":"ok"}`
	default:
		body = fmt.Sprintf(`{"version":%q,"agent_protocol":%d}`, wire.WorkspaceAPI, wire.Version)
	}
	id := ""
	if r.id != "" {
		id = "X-Request-Id: " + r.id + "\r\n"
	}
	fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Workspace-API-Version: %s\r\n%sConnection: close\r\n\r\n%s",
		status, len(body), wire.WorkspaceAPI, id, body)
	// Closing with unread bytes sends a reset, which may hide the answer from the client.
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, conn, maxRest) // fails when the client has closed
	}
}

// same compares in constant time.
func same(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	var differ byte
	for i := range len(a) {
		differ |= a[i] ^ b[i]
	}
	return differ == 0
}
