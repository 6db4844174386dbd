package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// The commands.
const (
	commandRun       = "tldw.sandbox.run"
	commandConfigure = "tldw.sandbox.configure"
	commandArtifacts = "tldw.sandbox.openArtifacts"
	commandCancel    = "belljar.sandbox.cancel"
	commandOpenRun   = "belljar.sandbox.openRun"
	commandFetch     = "belljar.sandbox.fetchArtifact"
	commandInput     = "belljar.sandbox.input"
)

func (s *Server) allCommands() map[string]func(context.Context, json.RawMessage) (any, error) {
	return map[string]func(context.Context, json.RawMessage) (any, error){
		commandRun: strict(s.run), commandConfigure: s.configure, commandArtifacts: strict(s.openArtifacts), commandCancel: strict(s.cancel),
		commandOpenRun: strict(s.openRun), commandFetch: strict(s.fetchArtifact), commandInput: strict(s.input),
	}
}

// strict makes a command of a function that takes its argument. It refuses unknown fields by name.
func strict[A any](do func(context.Context, A) (any, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args A
		if err := api.Decode(raw, &args); err != nil {
			return nil, err
		}
		return do(ctx, args)
	}
}

func (s *Server) executeCommand(ctx context.Context, p executeParams) (any, error) {
	raw := json.RawMessage("{}")
	switch len(p.Arguments) {
	case 0:
	case 1:
		if !absent(p.Arguments[0]) {
			raw = p.Arguments[0]
		}
	default:
		return nil, refuse("arguments", fmt.Sprintf("%s takes one argument, an object, and got %d", p.Command, len(p.Arguments)), "")
	}
	do, known := s.does[p.Command]
	if !known {
		return nil, refuse("command", fmt.Sprintf("command %.80q is not known", p.Command), "commands are "+strings.Join(slices.Sorted(maps.Keys(s.does)), ", "))
	}
	return do(ctx, raw)
}

// engine returns the service, and opens it on first use.
func (s *Server) engine(ctx context.Context) (belljar.Service, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.reporter.desk.mu.Lock()
	service := s.service
	s.reporter.desk.mu.Unlock()
	if service != nil {
		return service, nil
	}
	service, closer, err := s.o.Open(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	found, err := service.Node().Runtimes(ctx)
	if err != nil {
		return nil, errors.Join(err, closer()) // the next command tries again
	}
	s.reporter.desk.mu.Lock()
	defer s.reporter.desk.mu.Unlock()
	s.service, s.close, s.found = service, closer, found
	return service, nil
}

// configure reads and changes the settings of a folder.
func (s *Server) configure(ctx context.Context, raw json.RawMessage) (any, error) {
	var args configureArgs
	if err := api.Decode(raw, &args); err != nil {
		return nil, err
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	delete(given, "folder")
	s.reporter.desk.mu.Lock()
	f, err := s.reporter.desk.folderOf(args.Folder)
	s.reporter.desk.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before, err := f.store.settings()
	if err != nil || len(given) == 0 {
		return before, err
	}
	next, err := before.with(given)
	if err != nil {
		return nil, err
	}
	if err := next.check(); err != nil {
		return nil, err
	}
	if err := f.store.save(next); err != nil {
		return nil, fmt.Errorf("the settings cannot be stored: %w", err)
	}
	if before.terms() != next.terms() {
		// No run uses a session with the old settings again. If it cannot be ended, it expires.
		if x, ok := f.sessions[before.terms()]; ok {
			delete(f.sessions, before.terms())
			if service, err := s.engine(ctx); err == nil {
				_ = service.Sessions().Delete(ctx, x.id)
			}
		}
	}
	return next, nil
}

// runArg names a run; "" is the last one.
type runArg struct {
	RunID string `json:"run_id,omitempty"`
}

// which returns the id of the run that an argument names.
func (s *Server) which(id string) (string, error) {
	if id != "" {
		return id, nil
	}
	s.reporter.desk.mu.Lock()
	defer s.reporter.desk.mu.Unlock()
	if len(s.order) == 0 {
		return "", &belljar.Error{Code: belljar.CodeNotFound, Message: "nothing was run yet", Hint: "run something, or give run_id"}
	}
	return s.order[len(s.order)-1], nil
}

// reach returns the id of the run, as which does, and the service.
func (s *Server) reach(ctx context.Context, id string) (string, belljar.Service, error) {
	id, err := s.which(id)
	if err != nil {
		return "", nil, err
	}
	service, err := s.engine(ctx)
	return id, service, err
}

func (s *Server) cancel(ctx context.Context, args runArg) (any, error) {
	id, service, err := s.reach(ctx, args.RunID)
	if err != nil {
		return nil, err
	}
	return map[string]any{"run_id": id}, s.stop(ctx, service, id)
}

// stop cancels a run. If its server does not answer, stop ends the following of the run and retries the request.
func (s *Server) stop(ctx context.Context, service belljar.Service, id string) error {
	s.reporter.desk.mu.Lock()
	r := s.runs[id]
	s.reporter.desk.mu.Unlock()
	return service.Runs().Cancel(s.o.onRetry(ctx, func(err error) {
		if r != nil {
			r.leave(err)
		}
	}), id)
}

// onRetry returns a context with which the service reports that its server does not answer.
func (o Options) onRetry(ctx context.Context, say func(error)) context.Context {
	if o.OnRetry == nil {
		return ctx
	}
	return o.OnRetry(ctx, say)
}

type inputArgs struct {
	RunID string `json:"run_id,omitempty"`
	Data  string `json:"data,omitempty"`
	End   bool   `json:"end,omitempty"` // closes the input
}

// input sends standard input to an interactive run.
func (s *Server) input(ctx context.Context, args inputArgs) (any, error) {
	id, err := s.which(args.RunID)
	if err != nil {
		return nil, err
	}
	s.reporter.desk.mu.Lock()
	r := s.runs[id]
	s.reporter.desk.mu.Unlock()
	if r == nil || !r.args.Interactive {
		return nil, &belljar.Error{Code: belljar.CodeConflict, Message: "run " + id + " reads no input", Hint: "start it with interactive"}
	}
	r.typing.Lock()
	defer r.typing.Unlock()
	if r.over {
		return nil, &belljar.Error{Code: belljar.CodeConflict, Message: "run " + id + " takes no more input: it has ended, or is followed no further"}
	}
	if r.stdin == nil {
		if r.stdin, err = r.service.Runs().Stdin(s.reporter.desk.ctx, id); err != nil {
			return nil, err
		}
	}
	if args.Data != "" {
		_, err = r.stdin.Write([]byte(args.Data))
	}
	if err == nil && args.End {
		err = r.stdin.End()
	}
	return map[string]any{"run_id": id}, err
}

func (s *Server) cancelProgress(p progressCancelled) {
	token, _ := p.Token.(string)
	switch r := s.reporter.desk.begun[token]; {
	case r == nil:
	case r.id == "":
		r.quit()
	default:
		s.reporter.desk.background(func(ctx context.Context) {
			if err := s.stop(ctx, r.service, r.id); err != nil {
				s.reporter.desk.tell(messageError, "Belljar: the run cannot be cancelled: "+words(err))
			}
		})
	}
}

func (s *Server) openRun(ctx context.Context, args runArg) (any, error) {
	id, err := s.which(args.RunID)
	if err != nil {
		return nil, err
	}
	page := s.reporter.desk.webURL(id)
	if page == "" {
		return nil, &belljar.Error{
			Code: belljar.CodeNotFound, Message: "runs have no page without a server", Hint: "start one with belljar serve, and set BELLJAR_SERVER for the editor",
		}
	}
	s.reporter.desk.show(ctx, page)
	return map[string]any{"run_id": id, "web_url": page}, nil
}
