package service

import (
	"context"
	"log/slog"
	"sync"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/approval"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/file"
	"github.com/belljar/belljar/internal/service/git"
	"github.com/belljar/belljar/internal/service/idempotency"
	"github.com/belljar/belljar/internal/service/image"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/service/kernel"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/meter"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/port"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/service/retry"
	"github.com/belljar/belljar/internal/service/run"
	"github.com/belljar/belljar/internal/service/secret"
	"github.com/belljar/belljar/internal/service/session"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/service/template"
	"github.com/belljar/belljar/internal/service/terminal"
	"github.com/belljar/belljar/internal/service/volume"
)

// Service runs commands and keeps sessions. Make one with [New]. The APIs use it through [Service.As].
//
// Ended runs and sessions are records in the store. Live ones are also in memory, where their state is more recent.
type Service struct {
	opts      Options
	policy    string // the policy's hash
	hosts     placement.Hosts
	rules     *admission.Rules
	accounts  *admission.Accounts
	budget    *admission.Budget
	memory    *admission.Memory
	desk      *approval.Desk
	boxes     *box.Maker
	cloner    *git.Cloner
	packages  *install.Installer
	snapshots *snapshot.Snapshots
	templates *template.Templates
	volumes   *volume.Volumes
	log       *slog.Logger
	clock     Clock
	queue     *queue.Queue
	sessions  *session.Sessions
	terminals *terminal.Terminals
	sweeps    *lifecycle.Schedule
	reaps     *lifecycle.Schedule
	keys      *idempotency.Keys
	secrets   *secret.Secrets
	retry     *retry.Writer
	runs      *run.Runs
	logTurns  *queue.Queue // of the readers of logs
	images    *image.Images
	files     *file.Files
	ports     *port.Ports
	kernels   *kernel.Kernels
	meter     *meter.Meter
	expiring  sync.Map // by the id of a token in use: stops the timer that ends its uses

	work  lifecycle.Group // every run and teardown in progress
	gone  context.Context // ends when no work is left
	leave context.CancelFunc
}

// New returns a service over these parts. It does not use any of them yet.
func New(opts Options) (*Service, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	reach, err := opts.Policy.Egress()
	if err != nil {
		return nil, err
	}
	s := &Service{
		opts: opts, policy: opts.Policy.Hash(), log: opts.Logger, clock: opts.Clock,
		queue:    queue.New(queue.Options{Slots: opts.Concurrency, Length: opts.QueueLength, Now: opts.Clock.Now}),
		logTurns: newLogTurns(),
	}
	s.gone, s.leave = context.WithCancel(context.Background())
	asks, err := opts.Policy.ApprovalRules()
	if err != nil {
		return nil, err
	}
	if err := s.assemble(reach, asks); err != nil {
		return nil, err
	}
	s.runs = run.New(run.Options{
		Store: opts.Store.Runs(), Logs: opts.Logs, Blobs: opts.Blobs, Rules: s.rules, Accounts: s.accounts, Budget: s.budget, Memory: s.memory, Desk: s.desk,
		Boxes: s.boxes, Cloner: s.cloner, Packages: s.packages, Snapshots: s.snapshots, Templates: s.templates, Keys: s.keys, Secrets: s.secrets, UseSession: s.livingSession, Session: func(id string) *session.Session { return s.sessions.Get(id) },
		PolicyHash: s.policy, NodeID: opts.Node.ID, Stdin: opts.Stdin, MaxStdin: opts.MaxStdin,
		Queue: s.queue, QueueLength: opts.QueueLength, QueueTTL: opts.QueueTTL, Heartbeat: opts.Heartbeat, Slack: opts.Slack, Lease: opts.Lease, Warm: opts.Warm,
		RecordsSurvive: opts.recordsSurvive(), SessionsSurvive: opts.sessionsSurvive(), Closed: s.gone,
		Record: s.emit, Retry: s.retry, Work: &s.work, Clock: s.clock, Log: s.log,
	})
	s.sessions = session.New(session.Options{
		Terms: session.Terms{
			TTL: opts.SessionTTL, MaxTTL: opts.MaxSessionTTL, Lifetime: opts.SessionLifetime, MaxLifetime: opts.MaxSessionLifetime,
			Concurrency: opts.SessionConcurrency, MaxPerUser: opts.MaxSessions, MaxPerNode: opts.MaxNodeSessions, ReapEvery: opts.ReapEvery,
			Rest: opts.SessionRest, DefaultImage: opts.DefaultImage,
		},
		Store: opts.Store.Sessions(), Rules: s.rules, Accounts: s.accounts, Memory: s.memory, Desk: s.desk, Boxes: s.boxes, Cloner: s.cloner, Packages: s.packages, Snapshots: s.snapshots, Templates: s.templates, Closed: s.gone, Keys: s.keys, Secrets: s.secrets,
		Runs: s.runs, PolicyHash: s.policy, NodeID: opts.Node.ID, Queue: s.queue, QueueLength: opts.QueueLength, Contexts: opts.Contexts,
		Survive: opts.sessionsSurvive(), RecoverTerminals: func(ctx context.Context, x terminal.Session, known []wire.ExecInfo) {
			s.terminals.Recover(ctx, x, known)
		},
		Record: s.emit, Slack: opts.Slack, Retry: s.retry, Work: &s.work, Clock: s.clock, Log: s.log,
	})
	s.files = file.New(file.Options{
		Acquire: s.useSession, Ended: session.Ended, Room: s.accounts.Room, Uploads: opts.Uploads, TempDir: opts.TempDir, Record: s.emit, Now: s.now,
	})
	s.terminals = terminal.New(terminal.Options{
		Limits: opts.Terminals, Acquire: s.useTerminals, Living: s.living, Ended: session.Ended, Refused: s.refused, Destroy: s.boxes.Destroy,
		Record: s.emit, Slack: opts.Slack, Work: &s.work, Clock: opts.Clock, Log: opts.Logger,
	})
	s.ports = port.New(port.Options{
		Limits: opts.Ports, Acquire: s.usePorts, Check: checkSession(s), Ended: session.Ended, Refused: s.refused, Record: s.emit, Now: s.now, AfterFunc: s.clock.AfterFunc,
	})
	s.kernels = kernel.New(kernel.Options{Acquire: useContexts(s), Stop: s.runs.StopContext, Ended: session.Ended, Refused: s.refused, Record: s.emit, Now: s.now})
	s.meter = meter.New(meter.Options{Living: s.memory.Living, Now: s.clock.Now, AfterFunc: s.clock.AfterFunc})
	return s, nil
}

// assemble makes the parts that admit a request, and the maker of its sandbox.
func (s *Service) assemble(reach *admission.Egress, asks *admission.ApprovalRules) error {
	o := s.opts
	mirrors, err := install.Mirrors(o.Policy.PackageMirrors)
	if err != nil {
		return err
	}
	for _, rt := range o.Runtimes {
		s.hosts = append(s.hosts, placement.NewHost(rt))
	}
	s.rules = &admission.Rules{
		Hosts: s.hosts, Policy: o.Policy, Limits: o.Limits, MaxLimits: o.MaxLimits, Require: o.Require, Images: o.Images,
		Egress: reach, Approvals: asks, InstallMB: install.Memory(o.Packages.MB), GoCache: o.GoCache, Log: s.log,
	}
	s.accounts = &admission.Accounts{
		Users: o.Store.Users(), Default: o.Quota, Now: s.clock.Now, FreeBytes: o.FreeBytes, MinFreeBytes: o.MinFreeBytes, FreeFiles: o.FreeFiles,
		Wait: o.retention(), NextSweep: nextSweep(o, s.clock.Now),
	}
	s.volumes = volume.New(volume.Options{
		Dir: o.Volumes.Dir, MaxMB: o.Volumes.MB, Inodes: o.Limits.Inodes, Make: o.Volumes.Make, Unable: o.Volumes.Unable, Accounts: s.accounts,
		Record: s.emit, Now: s.now, Log: s.log,
	})
	s.rules.Disks = s.volumes
	s.budget = &admission.Budget{MaxPerUser: o.UserRequests, MaxTotal: o.AllRequests}
	s.memory = &admission.Memory{Mode: o.MemoryAdmission, Overcommit: o.MemoryOvercommit, NodeMemory: o.NodeMemory, Hosts: s.hosts, Disks: s.volumes, Log: s.log}
	s.images = image.New(image.Options{
		Store: o.Images, Rules: s.rules, Unused: o.ImageUnused, Keep: o.ImageKeep, Room: s.accounts.Room, Users: s.usersOf,
		Begin: s.track, Denied: s.denied, Record: s.emit, Closing: s.work.Closing(), Clock: s.clock, Log: s.log,
	})
	roots, err := o.Egress.Roots()
	if err != nil {
		return err
	}
	s.secrets = &secret.Secrets{Roots: roots, Store: o.Store.Secrets(), Vault: o.Vault, Record: s.emit, Now: s.now}
	s.retry = &retry.Writer{Clock: s.clock, Closing: s.work.Closing(), Log: s.log}
	s.keys = &idempotency.Keys{Store: o.Store.Keys(), TTL: o.IdempotencyTTL, Now: s.clock.Now, Retry: func(write func() error, about ...any) {
		s.log.Error("idempotency key cannot be released; retrying", about...)
		s.work.Go(func() { s.retry.Do(write, about...) })
	}}
	s.desk = approval.New(approval.Options{
		Store: o.Store.Approvals(), TTL: o.ApprovalTTL, MaxPerUser: o.MaxUserApprovals, Max: o.MaxApprovals,
		Record: s.emit, Clock: s.clock, Retry: s.retry, Work: &s.work, Log: s.log,
	})
	s.sweeps = &lifecycle.Schedule{Every: o.sweepEvery(), AfterFunc: s.clock.AfterFunc, Work: &s.work, Pass: s.sweepNow}
	s.reaps = &lifecycle.Schedule{Every: o.ReapEvery, AfterFunc: s.clock.AfterFunc, Work: &s.work, Pass: func() { s.Reap(s.work.Closing()) }}
	s.boxes = &box.Maker{
		Lifetime: o.Lifetime, Lease: o.Lease, Images: s.images, Hosts: s.hosts, Work: s.work.Go, AfterFunc: s.clock.AfterFunc, Log: s.log,
		Egress: o.Egress, Disks: s.volumes,
	}
	s.boxes.Egress.Count = s.countEgress
	s.cloner = &git.Cloner{Boxes: s.boxes, TempDir: o.TempDir, Room: s.accounts.Room, CA: o.Egress.CA}
	s.packages = install.New(install.Options{
		Shelf: o.Packages.Shelf, Boxes: s.boxes, Egress: reach, Mirrors: mirrors, TTL: o.Packages.TTL, Time: o.Packages.Time, MB: o.Packages.MB,
		Room: s.accounts.Room, Now: s.clock.Now, Log: s.log,
	})
	s.snapshots = newSnapshots(s)
	s.templates = newTemplates(s)
	return nil
}

// Policy returns the policy in force, limits included.
func (s *Service) Policy() Policy { return s.opts.Policy }

// Close refuses new runs, stops running ones and waits until every sandbox is removed. If the store outlives the process, queued runs
// stay on record: [Service.Recover] of the next process continues them. If sandboxes outlive it, too ([Options.Lifetime]), sessions and
// their runs are detached, unless [Options.EndSessions] is set. Close may be called twice; both calls wait.
func (s *Service) Close() error {
	s.runs.Stop()
	s.work.Cancel()
	s.sweeps.Stop()
	s.reaps.Stop()
	s.sessions.Close()
	s.work.Wait()
	s.leave()
	return nil
}
