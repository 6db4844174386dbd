package daemon

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/auth"
	"github.com/belljar/belljar/internal/api/mcp"
	"github.com/belljar/belljar/internal/api/preview"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/internal/api/shell"
	"github.com/belljar/belljar/internal/api/stream"
	"github.com/belljar/belljar/internal/api/thread"
	door "github.com/belljar/belljar/internal/api/workspace"
	"github.com/belljar/belljar/internal/archive"
	blobs "github.com/belljar/belljar/internal/blob/dir"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/event/audit"
	"github.com/belljar/belljar/internal/event/metric"
	logs "github.com/belljar/belljar/internal/logbook/dir"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/pool"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/stdin"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
	"github.com/belljar/belljar/internal/store/sqlite"
	"github.com/belljar/belljar/internal/workspace"
	"github.com/belljar/belljar/internal/workspace/remote"
)

// server holds everything that serves the server's address.
type server struct {
	version  string
	began    time.Time // before it continued what an earlier server left
	handler  http.Handler
	service  *service.Service
	known    *auth.Authenticator
	uses     api.Uses // of credentials
	draining atomic.Bool
	streams  *stream.Door
	previews *preview.Door // nil if disabled
	models   *mcp.Door     // nil if disabled
	// workspaces holds the workspaces of the workspace API, whose door is workspaceDoor.
	workspaces    workspace.Source
	workspaceDoor *door.Door
	pools         []*pool.Pool // of the runtimes that support one
	log           *slog.Logger

	runtimes []string // in order, the default first
	runtime  string   // the default
	reason   string   // why it is the default
	weaker   []string // protections that the default cannot enforce here
	madeKey  string   // the API key, if belljar generated it
	keyFile  string

	goImages chan goImage // images that need a Go build cache; nil if disabled
	goUsers  sync.Map     // the users of those in the queue

	machine   remote.Machine              // another machine, whose runtime is among the runtimes; nil if there is none
	elsewhere atomic.Pointer[event.Sinks] // receives events about requests to other servers; nil at first

	closers []func() error // in the order of opening
}

// serveMode holds the differences between serve and serve --private.
type serveMode struct {
	required []string         // protections that every sandbox must have
	lifetime runtime.Lifetime // of sandboxes
	images   string           // data folder with the images
	own      bool             // its only caller is the operator
}

// Close closes everything, the last opened first.
func (d *server) Close() error {
	var errs []error
	for _, c := range slices.Backward(d.closers) {
		errs = append(errs, c())
	}
	d.closers = nil
	return errors.Join(errs...)
}

// background runs do concurrently until it returns. Close cancels it and waits.
func (d *server) background(do func(ctx context.Context)) {
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(ctx)
	}()
	d.closers = append(d.closers, func() error {
		end()
		<-done
		return nil
	})
}

// openDaemon builds a server from the bottom up: store, logs, artifacts, runtimes, service, doors.
func openDaemon(ctx context.Context, h *Host, cfg *config.Config, data *dataDir, m serveMode) (d *server, err error) {
	d = &server{version: h.Version, began: time.Now(), log: logger(h, cfg)}
	slog.SetLogLoggerLevel(slog.LevelDebug) // messages of libraries, such as failed connections
	slog.SetDefault(d.log)
	spare(d.log)
	defer func(begun *server) { // d is nil by then
		if err != nil {
			err = errors.Join(err, begun.Close())
		}
	}(d)

	records, err := d.openStore(ctx, cfg, data)
	if err != nil {
		return nil, err
	}
	book, err := logs.Open(logs.Options{Path: data.in("logs"), Logger: d.log})
	if err != nil {
		return nil, unusable(data.path, err)
	}
	d.closers = append(d.closers, book.Close)
	artifacts, err := blobs.Open(blobs.Options{Path: data.in("artifacts")})
	if err != nil {
		return nil, unusable(data.path, err)
	}
	d.closers = append(d.closers, artifacts.Close)

	runtimes, err := openRuntimes(h, cfg, data, records, m.required, d)
	if err != nil {
		return nil, err
	}

	var names []string
	for i, rt := range runtimes {
		names = append(names, rt.Name())
		if runtimes[i], err = d.openPool(cfg, rt); err != nil {
			return nil, err
		}
	}
	images, err := openImages(m.images, cfg, uint64(cfg.MinFreeMB)<<20, d.log)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, images.Close)

	d.runtimes = names

	counter := metric.New(metric.Options{Version: h.Version, Commit: h.Commit, Runtimes: names})
	trail, err := audit.Open(audit.Options{
		Path: data.in("audit"), RetentionDays: cfg.AuditRetentionDays, RedactPaths: cfg.AuditRedactPaths, Logger: d.log,
	})
	if err != nil {
		return nil, unusable(data.path, err)
	}
	d.closers = append(d.closers, trail.Close)
	events := event.Sinks{counter, trail, thread.Watch{Logger: d.log, Events: counter}}

	opts := serviceOptions(cfg)
	applyEgress(&opts.Policy, cfg, m.own)
	if err := cmp.Or(checkImages(opts.Policy, cfg), checkNetwork(opts.Policy, cfg), checkTrust(ctx, opts.Policy, runtimes)); err != nil {
		return nil, err
	}
	if opts.Egress, err = egressOptions(cfg); err != nil {
		return nil, err
	}
	if cfg.ApprovalWebhook != "" {
		hook, err := openHook(cfg, data, opts.Egress, counter, d.log)
		if err != nil {
			return nil, err
		}
		d.closers = append(d.closers, hook.Close)
		events = append(events, hook)
	}
	d.elsewhere.Store(&events)
	opts.Require, opts.Lifetime = m.required, m.lifetime
	if opts.Policy.DockerSeccomp, err = profileHash(cfg.DockerSeccomp); err != nil {
		return nil, err
	}
	opts.TempDir = data.path // it is on a monitored disk, not a tmpfs
	opts.Runtimes, opts.Store, opts.Logs, opts.Blobs, opts.Events = runtimes, records, book, artifacts, events
	opts.Images = images
	opts.Revoked = d.uses.End
	if opts.Vault, err = openVault(ctx, data, records, cfg.SecretsKeyRotate, d.log); err != nil {
		return nil, err
	}
	opts.GoCache = d.goCache(cfg, m.images)
	opts.Packages = packageOptions(cfg, m.images)
	opts.Snapshots = snapshotOptions(cfg, data.path)
	opts.Volumes = volumeOptions(cfg, data.path)
	if no := opts.Volumes.Unable; no != nil && opts.Volumes.MB > 0 {
		d.log.Warn("SANDBOX_DISK_WORKSPACE_MB has no effect", "reason", no.Detail, "hint", no.Hint)
	}
	opts.FreeBytes = func() (uint64, error) { return data.free(cfg.StoreDBPath) }
	opts.FreeFiles = func() (uint64, uint64, error) { return freeFiles(data.path) }
	opts.Logger = d.log
	if d.service, err = service.New(opts); err != nil {
		return nil, err
	}
	d.closers = append(d.closers, d.service.Close)
	if err := d.service.Recover(ctx); err != nil {
		return nil, fmt.Errorf("continue after an earlier server: %w", err)
	}
	if _, fault := d.service.Faults(ctx); fault != nil && opts.Policy.DefaultTrust != "" {
		d.log.Warn("SANDBOX_DEFAULT_TRUST_LEVEL: requests that set no trust level are refused now", "level", opts.Policy.DefaultTrust, "err", fault)
	}
	d.warm(ctx, counter)
	d.prepull(cfg)
	d.fillGoCaches(m.images, records.Users())

	if d.workspaces, err = d.openSource(ctx, cfg, data, events); err != nil {
		return nil, err
	}
	return d, d.openDoors(cfg, data, events, counter)
}

// openDoors opens the HTTP routes of the service.
func (d *server) openDoors(cfg *config.Config, data *dataDir, events event.Sink, counter *metric.Counter) error {
	key := cfg.APIKey
	if key == "" {
		made, _, err := data.secret("api-key", newKey)
		if err != nil {
			return err
		}
		key, d.madeKey, d.keyFile = made, made, data.in("api-key")
	}
	secret := []byte(cfg.WSSigningSecret)
	if len(secret) == 0 {
		made, _, err := data.secret("signing-secret", func() string { return randomHex(32) })
		if err != nil {
			return err
		}
		if secret, err = hex.DecodeString(made); err != nil {
			return damagedSecret(data.in("signing-secret"), "signed URLs and sign-ins end", err)
		}
	}
	limits := api.NewLimits(api.LimitsOptions{
		PerUser: cfg.RateLimitPerMin, PerAddress: cfg.RateLimitPerAddress, Connects: cfg.WSConnectsPerMin,
	})
	edge, err := api.NewEdge(api.EdgeOptions{
		PublicURL: cfg.PublicURL, TrustedProxies: cfg.TrustedProxies, AllowedOrigins: cfg.AllowedOrigins,
		Limits: limits, Logger: d.log, Events: events,
	})
	if err != nil {
		return err
	}
	known, err := auth.New(auth.Options{
		Keys: d.service.Authenticate, Key: key, JWTSecret: []byte(cfg.JWTSecret),
		Issuer: cfg.OIDCIssuer, Audience: cfg.OIDCAudience, Events: events, Logger: d.log,
		SignIns: d.service.SignIns(), Secret: secret, Uses: &d.uses, PageURL: pageURL(cfg, edge),
	})
	if err != nil {
		return err
	}
	d.known = known
	callers := limits.Guarded(known)
	d.streams, err = stream.New(stream.Options{
		Engine: d.service, Auth: callers, Secret: secret, SignedURLs: cfg.WSSignedURLs, SignedTTL: cfg.WSSignedURLTTL,
		URL: edge.WebSocketURL, OriginAllowed: edge.OriginAllowed, Connect: limits.Connect, Enter: limits.Enter, Events: events, Logger: d.log,
	})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, d.streams.Close)
	terminals, err := d.openTerminals(cfg, secret, edge, limits, events)
	if err != nil {
		return err
	}
	bodies, lists := api.JSONShares(), api.ListShares() // shared by all doors
	canonical, err := rest.New(rest.Options{
		Engine: d.service, Auth: callers, Downloads: d.streams.Downloads(), Bodies: bodies, Lists: lists, StreamURL: d.streams.RunURL, Version: d.version, Ready: d.ready(cfg, data),
		Metrics: counter.Handler(), MetricsOpen: cfg.MetricsOpen, Series: counter.Snapshot, MaxUpload: int64(cfg.MaxUploadMB) << 20, MaxImage: int64(cfg.ImageMaxMB) << 20,
		Foreground: !cfg.BackgroundExecution, SpecVersions: cfg.SupportedSpecVersions, BasePath: edge.BasePath(), Terminal: terminals.New, PreviewURL: previewURL(cfg, edge),
		Events: events,
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	if err := d.openThreads(cfg, data, callers, bodies, events, mux); err != nil {
		return err
	}
	canonical.Register(mux)
	known.Register(mux, callers)
	d.streams.Register(mux)
	terminals.Register(mux)
	if err := d.openTunnels(edge, limits, events, mux); err != nil {
		return err
	}
	shells, err := shell.New(shell.Options{Engine: d.service, Auth: callers, Bodies: bodies, Lists: lists})
	if err != nil {
		return err
	}
	shells.Register(mux)
	if err := d.openWorkspaces(cfg, secret, edge, limits, callers, bodies, events, mux); err != nil {
		return err
	}
	if err := d.openModels(cfg, secret, edge, callers, bodies, mux); err != nil {
		return err
	}
	if err := openPage(cfg, edge, mux); err != nil {
		return err
	}
	mux.Handle("/", api.NoRoute(mux, "the API is below "+api.Prefix+"; /docs shows it"))
	d.handler = edge.Wrap(rest.RequireCleanPath(mux))
	return d.openPreviews(cfg, edge, events)
}

// openThreads opens the thread door.
func (d *server) openThreads(cfg *config.Config, data *dataDir, callers api.Authenticator, bodies *api.Shares, events event.Sink, mux *http.ServeMux) error {
	o := thread.Options{
		Engine: d.service, Auth: callers, Bodies: bodies, Root: cfg.ThreadRoot, MaxFileMB: cfg.ThreadMaxFileMB, MaxFiles: cfg.ThreadMaxFiles,
		MaxWorkspaceMB: cfg.ThreadMaxWorkspaceMB, Idle: min(thread.DefaultIdle, cfg.MaxSessionTTL), Timeout: min(thread.DefaultTimeout, cfg.MaxExecTimeout),
		TempDir: data.path, Room: d.service.Room, Events: events, Logger: d.log, Health: d.node,
	}
	if cfg.ThreadGuard {
		var err error
		if o.Guard, err = thread.NewGuard(cfg.ThreadCommands, cfg.ThreadPatterns); err != nil {
			return err
		}
	}
	door, err := thread.New(o)
	if err == nil {
		door.Register(mux)
	}
	return err
}

// openStore opens the records. A store file has a lock of its own, because servers with different data folders can name the same file.
func (d *server) openStore(ctx context.Context, cfg *config.Config, data *dataDir) (store.Store, error) {
	if cfg.Store == "memory" {
		return memory.New(), data.forMemory()
	}
	path := cmp.Or(cfg.StoreDBPath, data.in(storeName))
	lock, err := openLock(path + ".lock")
	switch {
	case errors.Is(err, errLocked):
		return nil, &belljar.Error{
			Code: belljar.CodeConflict, Message: "store " + path + " is in use by another belljar",
			Hint: "stop that one, or give this one another file with SANDBOX_STORE_DB_PATH",
		}
	case err != nil:
		return nil, &belljar.Error{
			Code: belljar.CodeInternal, Message: "store " + path + " cannot be locked", Err: err, Hint: "make its folder, and let belljar write to it",
		}
	}
	d.closers = append(d.closers, lock.Close)
	if err := data.checkStore(path); err != nil {
		return nil, err
	}
	records, err := sqlite.Open(ctx, sqlite.Options{Path: path, Logger: d.log})
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, records.Close)
	return records, nil
}

// serviceOptions returns the service's part of the configuration.
func serviceOptions(cfg *config.Config) service.Options {
	policy := service.DefaultPolicy()
	policy.MaxUploadMB = cfg.MaxUploadMB
	policy.ArtifactTTLHours = cfg.ArtifactTTLHours
	policy.MaxArtifactsPerUserMB = cfg.MaxArtifactUserMB
	policy.EnableExecution, policy.BackgroundExecution = cfg.EnableExecution, cfg.BackgroundExecution
	policy.DockerAppArmorProfile, policy.DockerOCIRuntime = cfg.DockerAppArmorProfile, cfg.DockerOCIRuntime
	policy.SupportedSpecVersions = cfg.SupportedSpecVersions
	applyImages(&policy, cfg)

	applyTrust(&policy, cfg)
	policy.Approval = cfg.Approval
	return service.Options{
		ApprovalTTL: cfg.ApprovalTTL, MaxApprovals: cfg.MaxApprovals, MaxUserApprovals: cfg.MaxUserApprovals,
		Limits: cfg.Limits(), MaxLimits: cfg.MaxLimits(), Policy: policy, Quota: cfg.Quota(), Stdin: stdinLimits(cfg),
		Uploads: archive.Limits{Files: cfg.MaxUploadFiles, Depth: cfg.MaxUploadDepth},
		Lease:   cfg.Lease, EndSessions: cfg.EndSessions,
		MemoryAdmission: service.Admission(cfg.MemoryAdmission), MemoryOvercommit: cfg.MemoryOvercommit, NodeMemory: int64(cfg.NodeMemoryMB) << 20,
		Concurrency: cfg.MaxConcurrentRuns, QueueLength: orNone(cfg.QueueMaxLength), QueueTTL: cfg.QueueTTL,
		DefaultImage: cfg.DefaultImage, ImageUnused: time.Duration(cfg.ImageGCDays) * 24 * time.Hour, ImageKeep: int64(cfg.ImageKeepMB) << 20,
		SessionRest: cfg.Hibernate, SessionTTL: cfg.SessionTTL, MaxSessionTTL: cfg.MaxSessionTTL,
		SessionLifetime: cfg.SessionLifetime, MaxSessionLifetime: cfg.MaxSessionLifetime,
		SessionConcurrency: cfg.SessionConcurrentRuns, ReapEvery: cfg.ReapEvery,
		MaxSessions: orNone(cfg.QuotaSessions), MaxNodeSessions: cfg.MaxSessions,
		Warm:      service.WarmOptions{On: cfg.Warm == "auto", Preload: cfg.Preload()},
		Contexts:  service.ContextLimits{Most: cfg.ContextsPerSession, Idle: cmp.Or(cfg.ContextIdle, -1)},
		Ports:     service.PortLimits{PerSession: cfg.PortConnections, Previews: cfg.PreviewDomain != "", PublicPreviews: cfg.PreviewPublic},
		Terminals: terminalOptions(cfg), IdempotencyTTL: cfg.IdempotencyTTL, RowDays: cfg.RunRetentionDays, MinFreeBytes: uint64(cfg.MinFreeMB) << 20,
	}
}

// orNone converts a limit for the service: operators write 0 for no limit, and the service reads -1 as none and 0 as the default.
func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// logger returns the server's log on stderr.
func logger(h *Host, cfg *config.Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.LogLevel)) // validated with the configuration
	opts := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(h.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(h.Stderr, opts))
}

// ready returns the readiness checks.
func (d *server) ready(cfg *config.Config, data *dataDir) func(context.Context) map[string]rest.Check {
	var throttle api.LogThrottle
	return func(ctx context.Context) map[string]rest.Check {
		checks := map[string]rest.Check{"store": {OK: true}, "disk": {OK: true}, "runtime": {OK: true, Detail: d.runtime}, "runs": {OK: true}}
		// The route needs no key. The cause, which may name paths, therefore goes only to the log.
		fail := func(name string, err error) {
			if throttle.Due(name, err, time.Now()) {
				d.log.Error("not ready", "check", name, "err", err)
			}
			checks[name] = rest.Check{Detail: "does not work; see the server's log"}
		}
		records, isolation := d.service.Faults(ctx)
		if records != nil {
			fail("store", records)
		}
		if isolation != nil {
			fail("runtime", isolation)
		}
		if d.draining.Load() {
			checks["runs"] = rest.Check{Detail: "belljar is shutting down"}
		}
		switch free, err := data.free(cfg.StoreDBPath); {
		case err != nil:
			fail("disk", err)
		case free < uint64(cfg.MinFreeMB)<<20/2:
			checks["disk"] = rest.Check{Detail: fmt.Sprintf("%d MiB are free, fewer than %d", free>>20, cfg.MinFreeMB/2)}
		default:
			if free, all, err := freeFiles(data.path); err == nil && all > 0 && (free == 0 || free < all/admission.FilesKept) {
				checks["disk"] = rest.Check{Detail: fmt.Sprintf("it has room for %d more files, as df -i shows", free)}
			}
		}
		checks["workspace"] = d.workspaceReady(ctx)
		if _, err := os.Stat(data.path); err != nil {
			fail("data", err)
		}
		return checks
	}
}

// stdinLimits are the default limits for the input of an interactive run.
func stdinLimits(c *config.Config) stdin.Limits {
	return stdin.Limits{
		MaxBytes: c.InteractiveBytes, MaxFrameBytes: c.InteractiveFrame, BytesPerSec: c.InteractiveBPS,
		IdleTimeoutSec: c.InteractiveIdleTime.Seconds(),
	}
}
