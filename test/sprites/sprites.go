//go:build linux

// Package sprites is a stand-in for the public API of a sprite, for tests: exec sessions over WebSockets, files and services, as the
// API is documented. Programs run on this machine with the rights of the test, so use it only with trusted programs. Faults can be
// injected.
package sprites

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Token is the only token that the API accepts.
const Token = "sprite-token-0123456789abcdef0123456789"

// Server is the API. Its fields may be set before the first request, and its faults at any time with [Server.Break].
type Server struct {
	*httptest.Server
	Name string // of the sprite
	// Dir is the root of the sprite's files: a path /x is Dir/x.
	Dir string

	mu       sync.Mutex
	fault    func(w http.ResponseWriter, r *http.Request) bool
	sessions map[string]*session
	services map[string]*service
	next     int
	requests []string // methods and paths
	ids      []string // of requests
}

// New starts the API of a sprite whose files are in dir. Close it with [Server.End].
func New(name, dir string) *Server {
	s := &Server{Name: name, Dir: dir, sessions: map[string]*session{}, services: map[string]*service{}, next: 1840}
	mux := http.NewServeMux()
	at := "/v1/sprites/" + name
	mux.HandleFunc("GET "+at+"/exec", s.start)
	mux.HandleFunc("GET "+at+"/exec/{id}", s.attach)
	mux.HandleFunc("POST "+at+"/exec/{id}/kill", s.kill)
	mux.HandleFunc("PUT "+at+"/fs/write", s.write)
	mux.HandleFunc("GET "+at+"/fs/list", s.list)
	mux.HandleFunc("GET "+at+"/fs/read", s.read)
	mux.HandleFunc("GET "+at+"/services/{service}", s.serviceState)
	mux.HandleFunc("PUT "+at+"/services/{service}", s.serviceMake)
	mux.HandleFunc("POST "+at+"/services/{service}/start", s.serviceStart)
	mux.HandleFunc("POST "+at+"/services/{service}/stop", s.serviceStop)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		fault := s.fault
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		s.ids = append(s.ids, r.Header.Get("X-Request-Id"))
		s.mu.Unlock()
		if fault != nil && fault(w, r) {
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+Token {
			fail(w, http.StatusUnauthorized, "the token "+r.Header.Get("Authorization")+" is unknown")
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return s
}

// Break passes every request to fault first, which returns true if it has responded. nil ends that.
func (s *Server) Break(fault func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Requests returns the method and path of each request so far.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// RequestIDs returns the id of each request so far, "" for none.
func (s *Server) RequestIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.ids...)
}

// Sessions returns the number of live exec sessions.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, x := range s.sessions {
		if !x.over() {
			n++
		}
	}
	return n
}

// Disconnect breaks the WebSockets of all sessions, which continue to run. It returns their number.
func (s *Server) Disconnect() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		n += x.disconnect()
	}
	return n
}

// Freeze ends all sessions, as a cold start of the sprite does. Services continue to run.
func (s *Server) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, x := range s.sessions {
		x.end(syscall.SIGKILL)
		x.disconnect()
		delete(s.sessions, id)
	}
}

// End ends the API and every program.
func (s *Server) End() {
	s.Freeze()
	s.CloseClientConnections()
	s.Server.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.services {
		x.stop()
	}
}

func fail(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]any{"error": "failed", "message": text})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// local returns the path of a sprite's file on this machine.
func (s *Server) local(p string) string { return filepath.Join(s.Dir, filepath.Clean("/"+p)) }

// Local replaces a path of the sprite by the path on this machine, in an argument of a program.
func (s *Server) Local(arg string) string {
	for _, top := range []string{"/srv/", "/home/sprite/"} {
		arg = strings.ReplaceAll(arg, top, s.Dir+top)
	}
	return arg
}

func (s *Server) write(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	mode, err := strconv.ParseUint(q.Get("mode"), 8, 32)
	if q.Get("path") == "" || q.Get("workingDir") == "" || err != nil {
		fail(w, http.StatusBadRequest, "path, workingDir and mode are required")
		return
	}
	path := s.local(q.Get("path"))
	if q.Get("mkdir") == "true" {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	var n int64
	if err == nil {
		err = os.Remove(path) // the file may be a running program
		if os.IsNotExist(err) {
			err = nil
		}
	}
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, os.FileMode(mode)); err == nil {
			n, err = io.Copy(f, r.Body)
			f.Close()
		}
	}
	if err != nil {
		fail(w, http.StatusNotFound, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]any{"path": q.Get("path"), "size": n, "mode": q.Get("mode")})
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	b, err := os.ReadFile(s.local(r.URL.Query().Get("path")))
	if err != nil {
		fail(w, http.StatusNotFound, "no such file")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(b)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Query().Get("path")
	infos, err := os.ReadDir(s.local(path))
	if err != nil {
		fail(w, http.StatusNotFound, "no such directory")
		return
	}
	entries := []map[string]any{}
	for _, i := range infos {
		entries = append(entries, map[string]any{"name": i.Name(), "path": filepath.Join(path, i.Name()), "isDir": i.IsDir()})
	}
	answer(w, http.StatusOK, map[string]any{"path": path, "entries": entries, "count": len(entries)})
}

// service is a program that the sprite keeps running.
type service struct {
	Cmd  string   `json:"cmd"`
	Args []string `json:"args"`
	Port int      `json:"http_port,omitempty"`

	run *exec.Cmd
}

func (x *service) stop() {
	if x.run != nil {
		_ = x.run.Process.Kill()
		_ = x.run.Wait()
		x.run = nil
	}
}

func (s *Server) serviceMake(w http.ResponseWriter, r *http.Request) {
	x := &service{}
	if err := json.NewDecoder(r.Body).Decode(x); err != nil || x.Cmd == "" {
		fail(w, http.StatusBadRequest, "no command")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.services[r.PathValue("service")]; old != nil {
		old.stop()
	}
	s.services[r.PathValue("service")] = x
	s.launch(w, x)
}

// launch starts a service and responds with its events. The caller holds the lock.
func (s *Server) launch(w http.ResponseWriter, x *service) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	event := func(kind, data string) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "data": data, "timestamp": time.Now().UnixMilli()})
	}
	if x.run == nil {
		args := make([]string, len(x.Args))
		for i, a := range x.Args {
			args[i] = s.Local(a)
		}
		run := exec.Command(s.Local(x.Cmd), args...)
		run.Dir = s.Dir
		if err := run.Start(); err != nil {
			event("error", err.Error())
			return
		}
		x.run = run
	}
	event("started", "")
	event("complete", "")
}

func (s *Server) serviceStart(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.services[r.PathValue("service")]
	if x == nil {
		fail(w, http.StatusNotFound, "no such service")
		return
	}
	s.launch(w, x)
}

func (s *Server) serviceStop(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.services[r.PathValue("service")]
	if x == nil {
		fail(w, http.StatusNotFound, "no such service")
		return
	}
	x.stop()
	w.Header().Set("Content-Type", "application/x-ndjson")
	fmt.Fprintln(w, `{"type":"stopped"}`)
}

func (s *Server) serviceState(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.services[r.PathValue("service")]
	if x == nil {
		fail(w, http.StatusNotFound, "no such service")
		return
	}
	state := "stopped"
	if x.run != nil {
		state = "running"
	}
	answer(w, http.StatusOK, map[string]any{"name": r.PathValue("service"), "cmd": x.Cmd, "args": x.Args, "state": map[string]any{"status": state}})
}
