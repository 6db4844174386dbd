package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/runtime"
)

// Options is what a service is made of. Runtimes and Logs are required.
type Options struct {
	// Runtimes a request can name. The first is the default.
	Runtimes []runtime.Runtime
	// Logs keeps what runs say.
	Logs logbook.Book
	// Images finds images; nil knows the host's own programs only.
	Images *image.Resolver
	// Limits are those of a request that asks for nothing, MaxLimits the most that can be asked for. A field left
	// zero is that of [belljar.DefaultLimits] and [belljar.MaxLimits].
	Limits, MaxLimits belljar.Limits
	// Policy is the rest of what the operator decides; the zero value is [DefaultPolicy].
	Policy Policy
	// Require names the protections that every sandbox must have, or not be made; nil means [AllProtections]. A
	// request of an operator can do without some of them (allow_weak).
	Require []string
	// Lifetime of sandboxes; "" means creator: they end with this process, however it ends.
	Lifetime runtime.Lifetime
	// SpoolDir is where the bytes of artifacts lie, in files without a name; "" is the system's temporary folder.
	SpoolDir string
	// KeepRuns and KeepBytes bound the finished runs that can still be asked about: how many (0 is 256), and how much
	// their logs and artifacts take together (0 is 1 GiB). The oldest go first; the newest always stays.
	KeepRuns  int
	KeepBytes int64
	// Slack is how much longer than its agent should take a command may last before the service gives it up and
	// destroys the sandbox; 0 is 5 s.
	Slack time.Duration
	// Logger hears what no caller can be told; nil is silent.
	Logger *slog.Logger
}

// Service runs things. Make one with [New]; see the doors' view of it with [Service.As].
type Service struct {
	opts     Options
	policy   string // its hash
	runtimes []*host
	log      *slog.Logger

	work     sync.WaitGroup // every run and teardown under way
	sessions sessionTable

	mu       sync.Mutex
	closed   bool
	runs     map[string]*run
	finished []*run // oldest first
	kept     int64  // bytes that finished runs take
}

// New returns a service over these parts, which remain the caller's. It touches no runtime.
func New(opts Options) (*Service, error) {
	if len(opts.Runtimes) == 0 {
		return nil, errors.New("service: no runtime")
	}
	if opts.Logs == nil {
		return nil, errors.New("service: no logbook")
	}
	if opts.Images == nil {
		opts.Images = &image.Resolver{}
	}
	if opts.Require == nil {
		opts.Require = AllProtections()
	}
	if opts.Lifetime == "" {
		opts.Lifetime = runtime.LifetimeCreator
	}
	if opts.KeepRuns == 0 {
		opts.KeepRuns = 256
	}
	if opts.KeepBytes == 0 {
		opts.KeepBytes = 1 << 30
	}
	if opts.Slack == 0 {
		opts.Slack = 5 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Limits = orElse(opts.Limits, belljar.DefaultLimits())
	opts.MaxLimits = orElse(opts.MaxLimits, belljar.MaxLimits())
	opts.Policy = opts.Policy.effective(opts)
	s := &Service{opts: opts, policy: opts.Policy.Hash(), log: opts.Logger, runs: map[string]*run{}}
	for _, rt := range opts.Runtimes {
		if s.find(rt.Name()) != nil {
			return nil, fmt.Errorf("service: two runtimes are called %s", rt.Name())
		}
		s.runtimes = append(s.runtimes, &host{Runtime: rt})
	}
	return s, nil
}

// Policy returns the policy in force, limits included.
func (s *Service) Policy() Policy { return s.opts.Policy }

// Close refuses new runs, cancels those under way, waits until every sandbox is gone and drops what was captured. It may
// be called twice; both calls wait.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, r := range s.runs {
		r.stop(errShutdown)
	}
	s.mu.Unlock()
	s.work.Wait()

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.finished {
		s.drop(r)
	}
	s.finished = nil
	return nil
}

// launch puts a run on record and sets it going.
func (s *Service) launch(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "belljar is shutting down"}
	}
	s.runs[r.id] = r
	s.work.Go(func() { s.carry(r) })
	return nil
}

// lookup finds a run that caller may see.
func (s *Service) lookup(caller belljar.Caller, id string) (*run, error) {
	s.mu.Lock()
	r, ok := s.runs[id]
	s.mu.Unlock()
	if !ok || !caller.Sees(r.owner) {
		return nil, &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("run %q does not exist", id),
			Details: map[string]any{"run_id": id},
		}
	}
	return r, nil
}

// find returns the runtime of that name, or nil.
func (s *Service) find(name string) *host {
	for _, h := range s.runtimes {
		if h.Name() == name {
			return h
		}
	}
	return nil
}

// destroy takes a sandbox away. Nobody waits for it but Close.
func (s *Service) destroy(id string, box runtime.Sandbox) {
	if err := box.Destroy(context.Background()); err != nil {
		s.log.Error("sandbox could not be destroyed", "run_id", id, "err", err)
	}
}

// orElse fills the zero fields of l.
func orElse(l, defaults belljar.Limits) belljar.Limits {
	fill(&l.CPU, defaults.CPU)
	fill(&l.MemoryMB, defaults.MemoryMB)
	fill(&l.Pids, defaults.Pids)
	fill(&l.NoFile, defaults.NoFile)
	fill(&l.NProc, defaults.NProc)
	fill(&l.WorkspaceMB, defaults.WorkspaceMB)
	fill(&l.TmpMB, defaults.TmpMB)
	fill(&l.Inodes, defaults.Inodes)
	fill(&l.LogBytes, defaults.LogBytes)
	fill(&l.ArtifactMB, defaults.ArtifactMB)
	fill(&l.StartupTimeoutSec, defaults.StartupTimeoutSec)
	fill(&l.TimeoutSec, defaults.TimeoutSec)
	fill(&l.GraceSec, defaults.GraceSec)
	return l
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
