package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/file"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/store"
)

// Service runs things. Make one with [New]; see the doors' view of it with [Service.As].
//
// What has ended is on record in the store; what is under way is in memory too, and there it is more up to date.
type Service struct {
	opts          Options
	policy        string // its hash
	runtimes      []*host
	log           *slog.Logger
	clock         Clock
	queue         *queue.Queue
	burden        *burden
	node          nodeMemory
	artifacts     ledger
	logs          ledger
	quotas        quotas
	sessions      sessionTable
	terminals     terminalTable
	sweeps        sweeps
	reaps         sweeps
	builtPrograms builtPrograms
	pulling       *queue.Queue // whose turn it is to pull images
	files         *file.Files

	work    sync.WaitGroup // every run and teardown under way
	closing context.Context
	close   context.CancelFunc
	gone    context.Context // ends when nothing is under way any more
	leave   context.CancelFunc

	mu     sync.Mutex
	closed bool
	runs   map[string]*run // those under way
}

// New returns a service over these parts. It touches none of them.
func New(opts Options) (*Service, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	s := &Service{
		opts: opts, policy: opts.Policy.Hash(), log: opts.Logger, clock: opts.Clock, runs: map[string]*run{},
		node:    nodeMemory{mode: opts.MemoryAdmission},
		burden:  &burden{mostOfOne: opts.UserRequests, mostOfAll: opts.AllRequests},
		pulling: queue.New(queue.Options{Slots: pullsAtOnce, Length: pullsWaiting, Now: opts.Clock.Now}),
		queue:   queue.New(queue.Options{Slots: opts.Concurrency, Length: opts.QueueLength, Now: opts.Clock.Now}),
	}
	s.files = file.New(file.Options{
		Acquire: s.useSession, Ended: sessionEnded, Room: s.room, Uploads: opts.Uploads, TempDir: opts.TempDir, Record: s.emit, Now: s.now,
	})
	s.closing, s.close = context.WithCancel(context.Background())
	s.gone, s.leave = context.WithCancel(context.Background())
	for _, rt := range opts.Runtimes {
		s.runtimes = append(s.runtimes, &host{Runtime: rt})
	}
	return s, nil
}

// Policy returns the policy in force, limits included.
func (s *Service) Policy() Policy { return s.opts.Policy }

// Close refuses new runs, cancels those under way and waits until every sandbox is gone. Runs that wait in the queue
// stay there if the store outlives the process; [Service.Recover] then goes on with them. Where sandboxes outlive it, too
// ([Options.Lifetime]), so do sessions and what runs in them, unless [Options.EndSessions]. It may be called twice; both
// calls wait.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, r := range s.runs {
		if s.stays() && r.settled() {
			r.stop(errLeft)
		} else {
			r.stop(errShutdown)
		}
	}
	s.mu.Unlock()
	s.close()
	s.sweeps.stop()
	s.reaps.stop()
	s.closeSessions()
	s.work.Wait()
	s.leave()
	return nil
}

// register puts a run among those under way. Every run that was registered leaves again.
func (s *Service) register(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return shuttingDown()
	}
	s.runs[r.id] = r
	s.work.Add(1)
	return nil
}

// unregister takes a run from those under way. What becomes of it is on record.
func (s *Service) unregister(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, r.id)
}

func shuttingDown() error {
	return &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "belljar is shutting down"}
}

// under returns the run of that id if it is under way, or nil.
func (s *Service) under(id string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

// find returns a run that caller may see: under way, or else as it is on record.
func (s *Service) find(ctx context.Context, caller belljar.Caller, id string) (*run, store.Run, error) {
	if r := s.under(id); r != nil {
		if !caller.Sees(r.owner) {
			return nil, store.Run{}, noRun(id)
		}
		return r, store.Run{}, nil
	}
	row, err := s.opts.Store.Runs().Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !caller.Sees(row.UserID):
		return nil, row, noRun(id)
	case err != nil:
		return nil, row, recordError("read the record of run "+id, err)
	}
	return nil, row, nil
}

// lookup returns a run under way that caller may see. One that has ended is [belljar.CodeConflict].
func (s *Service) lookup(caller belljar.Caller, id string) (*run, error) {
	r, _, err := s.find(context.Background(), caller, id)
	if err == nil && r == nil {
		err = &belljar.Error{
			Code: belljar.CodeConflict, Message: fmt.Sprintf("run %s has ended", id), Details: map[string]any{"run_id": id},
		}
	}
	return r, err
}

func noRun(id string) error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("run %q does not exist", id),
		Details: map[string]any{"run_id": id},
	}
}

// recordError is what a caller hears of a failure of the store.
func recordError(doing string, err error) error {
	if full(err) {
		return diskFull(err)
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: doing, Err: err}
}

// runtime returns the runtime of that name, or nil.
func (s *Service) runtime(name string) *host {
	for _, h := range s.runtimes {
		if h.Name() == name {
			return h
		}
	}
	return nil
}

// destroy takes a sandbox away. Nobody waits for it but Close, and who waits for the run's slot.
func (s *Service) destroy(id string, box runtime.Sandbox) {
	if err := box.Destroy(context.Background()); err != nil {
		for _, h := range s.runtimes { // one of them has it, and the reaper looks for it there
			h.orphans.suspect()
		}
		s.log.Error("sandbox could not be destroyed", "run_id", id, "err", err)
	}
}
