package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/file"
	"github.com/belljar/belljar/internal/service/image"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/service/terminal"
	"github.com/belljar/belljar/internal/store"
)

// Service runs things. Make one with [New]; see the doors' view of it with [Service.As].
//
// What has ended is on record in the store; what is under way is in memory too, and there it is more up to date.
type Service struct {
	opts      Options
	policy    string // its hash
	hosts     placement.Hosts
	rules     *admission.Rules
	accounts  *admission.Accounts
	budget    *admission.Budget
	node      *admission.Memory
	boxes     *box.Maker
	log       *slog.Logger
	clock     Clock
	queue     *queue.Queue
	sessions  sessionTable
	terminals *terminal.Terminals
	sweeps    sweeps
	reaps     sweeps
	carrier   *carrier
	images    *image.Images
	files     *file.Files

	work  lifecycle.Group // every run and teardown under way
	gone  context.Context // ends when nothing is under way any more
	leave context.CancelFunc

	mu   sync.Mutex
	runs map[string]*run // those under way
}

// New returns a service over these parts. It touches none of them.
func New(opts Options) (*Service, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	s := &Service{
		opts: opts, policy: opts.Policy.Hash(), log: opts.Logger, clock: opts.Clock, runs: map[string]*run{},
		queue: queue.New(queue.Options{Slots: opts.Concurrency, Length: opts.QueueLength, Now: opts.Clock.Now}),
	}
	s.gone, s.leave = context.WithCancel(context.Background())
	s.assemble()
	s.files = file.New(file.Options{
		Acquire: s.useSession, Ended: sessionEnded, Room: s.accounts.Room, Uploads: opts.Uploads, TempDir: opts.TempDir, Record: s.emit, Now: s.now,
	})
	s.terminals = terminal.New(terminal.Options{
		Limits: opts.Terminals, Acquire: s.terminalSession, Living: s.living, Ended: sessionEnded, Refused: s.refused, Destroy: s.boxes.Destroy,
		Record: s.emit, Slack: opts.Slack, Work: &s.work, Clock: opts.Clock, Log: opts.Logger,
	})
	return s, nil
}

// assemble makes the parts that decide what a request may have, and the maker of its sandbox.
func (s *Service) assemble() {
	o := s.opts
	for _, rt := range o.Runtimes {
		s.hosts = append(s.hosts, placement.NewHost(rt))
	}
	s.rules = &admission.Rules{
		Hosts: s.hosts, Policy: o.Policy, Limits: o.Limits, MaxLimits: o.MaxLimits, Require: o.Require, Images: o.Images,
		GoCache: o.GoCache, Log: s.log,
	}
	s.accounts = &admission.Accounts{
		Users: o.Store.Users(), Usual: o.Quota, Now: s.clock.Now, FreeBytes: o.FreeBytes, MinFreeBytes: o.MinFreeBytes,
		Wait: o.Policy.Retention(o.RowDays),
	}
	s.budget = &admission.Budget{MostOfOne: o.UserRequests, MostOfAll: o.AllRequests}
	s.node = &admission.Memory{Mode: o.MemoryAdmission, Overcommit: o.MemoryOvercommit, Hosts: s.hosts, Log: s.log}
	s.images = image.New(image.Options{
		Store: o.Images, Rules: s.rules, Unused: o.ImageUnused, Keep: o.ImageKeep, Room: s.accounts.Room, Users: s.usersOf,
		Begin: s.track, Denied: s.denied, Record: s.emit, Closing: s.work.Closing(), Clock: s.clock, Log: s.log,
	})
	s.boxes = &box.Maker{
		Lifetime: o.Lifetime, Lease: o.Lease, Images: s.images, Hosts: s.hosts, Work: s.work.Go, AfterFunc: s.clock.AfterFunc, Log: s.log,
	}
	s.carrier = &carrier{
		recorder: &recorder{
			store: o.Store.Runs(), logs: o.Logs, events: o.Events, clock: s.clock, log: s.log, node: o.Node.ID, heartbeat: o.Heartbeat,
			work: s.work.Go, closing: s.work.Closing(), unregister: s.unregister,
		},
		boxes: s.boxes, memory: s.node, accounts: s.accounts, blobs: o.Blobs, done: s.work.Done,
		slack: o.Slack, lease: o.Lease, queueTTL: o.QueueTTL, outlives: s.outlives, stays: s.stays, drains: s.drains,
	}
}

// Policy returns the policy in force, limits included.
func (s *Service) Policy() Policy { return s.opts.Policy }

// Close refuses new runs, cancels those under way and waits until every sandbox is gone. Runs that wait in the queue
// stay there if the store outlives the process; [Service.Recover] then goes on with them. Where sandboxes outlive it, too
// ([Options.Lifetime]), so do sessions and what runs in them, unless [Options.EndSessions]. It may be called twice; both
// calls wait.
func (s *Service) Close() error {
	s.mu.Lock()
	s.work.Refuse() // under the lock, so that no run is added afterwards
	for _, r := range s.runs {
		if s.stays() && r.settled() {
			r.stop(fault.ErrDetached)
		} else {
			r.stop(fault.ErrShutdown)
		}
	}
	s.mu.Unlock()
	s.work.Cancel()
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
	if !s.work.Enter() {
		return fault.ShuttingDown()
	}
	s.runs[r.id] = r
	return nil
}

// unregister takes a run from those under way. What becomes of it is on record.
func (s *Service) unregister(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, r.id)
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
		return nil, row, fault.Record("read the record of run "+id, err)
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
