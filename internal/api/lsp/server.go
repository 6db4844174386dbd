package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	gosync "sync"
	"syscall"
	"time"

	"github.com/creachadair/jrpc2"

	"github.com/belljar/belljar"
)

// Options configure a server.
type Options struct {
	Version string
	// Open returns the service that runs programs, and a function that closes it. It is called for the first command that needs
	// it, and again after an error.
	Open func(context.Context) (belljar.Service, func() error, error)
	// OnRetry returns a context with which the service calls say each time that its server does not answer; nil for a service in
	// this process.
	OnRetry func(ctx context.Context, say func(error)) context.Context
	// URL is the URL of the server with the service, for links to its pages; "" for a service in this process.
	URL string
	// Config is the folder of the users' settings for their folders.
	Config string
}

// ErrNoShutdown is the error for a client that ends without a shutdown request, or disappears.
var ErrNoShutdown = errors.New("the editor ended without a shutdown request")

// The stages of a server's life.
const (
	fresh = iota
	initialized
	shutDown
	ended
)

// Server serves one editor.
type Server struct {
	reporter *reporter
	o        Options
	opening  gosync.Mutex // held while the service is opened

	// Guarded by the desk's mutex.
	stage   int
	methods map[string]jrpc2.Handler
	does    map[string]func(context.Context, json.RawMessage) (any, error) // by command
	service belljar.Service
	close   func() error
	found   belljar.Discovery
	runs    map[string]*run // active runs, and the latest that have ended
	order   []string        // ids of runs, oldest first
	opened  []string        // ids of sessions
}

// mostParting limits how long the server waits at its end for its sessions and runs to end.
const mostParting = 2 * time.Second

// Serve speaks with the editor until it exits or closes in.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := &Server{o: o, runs: map[string]*run{}, reporter: &reporter{desk: &desk{
		links: links{server: o.URL}, docs: map[string]*document{}, shown: map[string]diagnostics{}, marks: map[string]string{}, newest: map[string]string{}, live: map[*plan]bool{}, begun: map[string]*run{},
		peer: &peer{ctx: ctx, parent: stop},
	}}}
	s.methods, s.does = s.allMethods(), s.allCommands()
	// A read of standard input cannot be interrupted, so another goroutine does it.
	input, feed := io.Pipe()
	go func() {
		_, err := io.Copy(feed, in)
		feed.CloseWithError(err)
	}()
	framing := &stream{in: bufio.NewReaderSize(input, mostHeader), out: out, closed: func() { input.Close() }, end: ctx.Done()}
	s.reporter.desk.rpc = jrpc2.NewServer(s, &jrpc2.ServerOptions{
		AllowPush: true, DisableBuiltin: true, Concurrency: 128, NewContext: func() context.Context { return ctx },
	})
	s.reporter.desk.rpc.Start(framing)
	go func() {
		<-ctx.Done()
		s.reporter.desk.rpc.Stop()
	}()
	err := s.reporter.desk.rpc.Wait()
	s.reporter.desk.mu.Lock()
	stage := s.stage
	s.reporter.desk.mu.Unlock()
	stop(nil)
	s.reporter.desk.after.Wait()
	switch cause := context.Cause(ctx); {
	case framing.broken != nil:
		err = framing.broken
	case errors.Is(cause, ErrNoShutdown):
		err = cause
	case stage == ended, stage == shutDown, err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), ctx.Err() != nil:
		err = nil
	}
	return errors.Join(err, s.end())
}

// end closes everything that the server has opened. Its sessions end with it, and so do runs without one. What a service does not end in
// time, as one that does not answer, ends by its own limits.
func (s *Server) end() (err error) {
	ctx, stop := context.WithTimeout(context.Background(), mostParting)
	defer stop()
	var parting gosync.WaitGroup
	for _, id := range s.opened {
		parting.Go(func() { _ = s.service.Sessions().Delete(ctx, id) })
	}
	for _, r := range s.runs {
		if r.err != nil && r.started.SessionID == "" {
			parting.Go(func() { _ = s.service.Runs().Cancel(ctx, r.id) })
		}
	}
	parting.Wait()
	for _, f := range s.reporter.desk.folders {
		f.close()
	}
	if s.close != nil {
		err = s.close()
	}
	return err
}

// Assign returns the handler of a method.
func (s *Server) Assign(_ context.Context, method string) jrpc2.Handler {
	handle, known := s.methods[method]
	return func(ctx context.Context, req *jrpc2.Request) (any, error) {
		s.reporter.desk.mu.Lock()
		stage := s.stage
		s.reporter.desk.mu.Unlock()
		switch {
		case method == "exit", stage == fresh && method == "initialize":
		case req.IsNotification() && (stage != initialized || !known):
			return nil, nil
		case stage == fresh:
			return nil, jrpc2.Errorf(codeNotInitialized, "%s comes before initialize", method)
		case stage != initialized:
			return nil, jrpc2.Errorf(codeInvalidRequest, "%s comes after shutdown", method)
		case method == "initialize":
			return nil, jrpc2.Errorf(codeInvalidRequest, "initialize comes a second time")
		case !known:
			return nil, jrpc2.Errorf(jrpc2.MethodNotFound, "method %q is not known", method)
		}
		answer, err := handle(ctx, req)
		if err != nil {
			return nil, failed(ctx, err)
		}
		return answer, nil
	}
}

func (s *Server) allMethods() map[string]jrpc2.Handler {
	return map[string]jrpc2.Handler{
		"initialize": asked(s.initialize), "initialized": s.reporter.desk.initialized, "shutdown": s.shutdown, "exit": s.exit,
		"$/cancelRequest": asked(s.cancelRequest), "$/setTrace": nothing,
		"textDocument/didOpen": notified(s.reporter.desk, s.reporter.desk.didOpen), "textDocument/didChange": notified(s.reporter.desk, s.reporter.desk.didChange),
		"textDocument/didSave": notified(s.reporter.desk, s.reporter.desk.didSave), "textDocument/didClose": notified(s.reporter.desk, s.reporter.desk.didClose),
		"workspace/didChangeWorkspaceFolders": notified(s.reporter.desk, s.didChangeFolders), "workspace/didChangeConfiguration": notified(s.reporter.desk, s.reporter.desk.didChangeConfiguration),
		"workspace/didChangeWatchedFiles": notified(s.reporter.desk, s.reporter.desk.didChangeFiles), "window/workDoneProgress/cancel": notified(s.reporter.desk, s.cancelProgress),
		"textDocument/codeLens": asked(s.reporter.desk.codeLens), "textDocument/codeAction": asked(s.reporter.desk.codeAction), "workspace/executeCommand": asked(s.executeCommand),
	}
}

func nothing(context.Context, *jrpc2.Request) (any, error) { return nil, nil }

// asked makes a handler of a function that takes a method's parameters. It ignores unknown fields.
func asked[P any](do func(context.Context, P) (any, error)) jrpc2.Handler {
	return func(ctx context.Context, req *jrpc2.Request) (any, error) {
		var p P
		if raw := req.ParamString(); raw != "" {
			if err := json.Unmarshal([]byte(raw), &p); err != nil {
				return nil, jrpc2.Errorf(codeInvalidParams, "the parameters of %s are wrong: %v", req.Method(), err)
			}
		}
		return do(ctx, p)
	}
}

// notified makes a handler of a function for a notification. The handler holds the mutex.
func notified[P any](s *desk, do func(P)) jrpc2.Handler {
	return asked(func(_ context.Context, p P) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		do(p)
		return nil, nil
	})
}

// absent reports whether a value is unset, null, or an empty list: Neovim writes an empty table of Lua as a list.
func absent(raw json.RawMessage) bool {
	var list []json.RawMessage
	return len(raw) == 0 || json.Unmarshal(raw, &list) == nil && len(list) == 0
}

func (s *Server) initialize(ctx context.Context, p initializeParams) (any, error) {
	if !absent(p.Options) {
		if err := json.Unmarshal(p.Options, &s.reporter.desk.options); err != nil {
			return nil, jrpc2.Errorf(codeInvalidParams, "initializationOptions are wrong: %v", err)
		}
	}
	s.reporter.desk.mu.Lock()
	defer s.reporter.desk.mu.Unlock()
	s.stage, s.reporter.desk.client = initialized, p.Capabilities
	s.reporter.desk.noLenses = s.reporter.desk.options.CodeLens != nil && !*s.reporter.desk.options.CodeLens
	if slices.Contains(p.Capabilities.General.PositionEncodings, "utf-8") {
		s.reporter.desk.units = utf8Units
	}
	list := p.WorkspaceFolders
	if len(list) == 0 && p.RootURI != nil {
		list = []workspaceFolder{{URI: *p.RootURI}}
	}
	if len(list) == 0 && p.RootPath != nil && *p.RootPath != "" {
		list = []workspaceFolder{{URI: uriOf(*p.RootPath)}}
	}
	for _, f := range list {
		s.addFolder(f)
	}
	if p.ProcessID != nil && *p.ProcessID > 0 && runtime.GOOS != "windows" {
		s.reporter.desk.background(func(ctx context.Context) { s.watch(ctx, *p.ProcessID) })
	}
	capabilities := map[string]any{
		"positionEncoding":   s.reporter.desk.units.String(),
		"textDocumentSync":   map[string]any{"openClose": true, "change": 2, "save": map[string]any{"includeText": false}},
		"codeActionProvider": map[string]any{"codeActionKinds": []string{quickFix}},
		"codeLensProvider":   map[string]any{"resolveProvider": false},
		"workspace":          map[string]any{"workspaceFolders": map[string]any{"supported": true, "changeNotifications": true}},
	}
	commands := []string{} // a client that registers the commands itself must not find them here
	if !s.reporter.desk.options.ClientCommands {
		commands = slices.Sorted(maps.Keys(s.does))
	}
	capabilities["executeCommandProvider"] = map[string]any{"commands": commands}
	return map[string]any{"capabilities": capabilities, "serverInfo": map[string]any{"name": "belljar", "version": s.o.Version}}, nil
}

// watch ends the server when the editor's process ends.
func (s *Server) watch(ctx context.Context, pid int) {
	p, err := os.FindProcess(pid)
	if err != nil {
		s.reporter.desk.parent(ErrNoShutdown)
		return
	}
	defer func() { _ = p.Release() }() // an error here has no effect
	look := time.NewTicker(3 * time.Second)
	defer look.Stop()
	for {
		if err := p.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
			s.reporter.desk.parent(ErrNoShutdown)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

func (s *Server) shutdown(context.Context, *jrpc2.Request) (any, error) {
	s.reporter.desk.mu.Lock()
	defer s.reporter.desk.mu.Unlock()
	s.stage = shutDown
	return nil, nil
}

func (s *Server) exit(context.Context, *jrpc2.Request) (any, error) {
	s.reporter.desk.mu.Lock()
	before := s.stage
	s.stage = ended
	s.reporter.desk.mu.Unlock()
	if before != shutDown {
		s.reporter.desk.parent(ErrNoShutdown)
	} else {
		s.reporter.desk.parent(nil)
	}
	return nil, nil
}

type cancelParams struct {
	ID json.RawMessage `json:"id"`
}

func (s *Server) cancelRequest(_ context.Context, p cancelParams) (any, error) {
	s.reporter.desk.rpc.CancelRequest(string(p.ID))
	return nil, nil
}
