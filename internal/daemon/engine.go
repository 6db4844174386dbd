package daemon

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob/spool"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/local"
	logbook "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	store "github.com/belljar/belljar/internal/store/memory"
)

// sweepTime limits the search for remains of killed processes.
const sweepTime = 5 * time.Second

// Open builds the engine of a command.
func (h *Host) Open(want local.Needs) (*local.Engine, error) {
	e, err := openEngine(h, want, "")
	if err != nil {
		return nil, err
	}
	return e.Engine, nil
}

// OpenBench builds an engine for benchmarks. It has its own installation, like a server: each concurrent belljar run sweeps the
// shared installation at its end.
func (h *Host) OpenBench() (*local.Bench, error) {
	return openEngine(h, local.Needs{Runtime: platformRuntime}, "bench-"+strconv.Itoa(os.Getpid()))
}

// openEngine builds an engine from the bottom up: runtimes, stores, service. installation owns the sandboxes; "" is the shared one
// of all commands.
func openEngine(h *Host, want local.Needs, installation string) (*local.Bench, error) {
	cfg, err := config.Load(config.Sources{Env: h.Env})
	if err != nil {
		return nil, err
	}
	names, err := candidates(want, &cfg)
	if err != nil {
		return nil, err
	}
	units, err := openUnits(h, names, openOptions{installation: installation, cfg: &cfg})
	if err != nil {
		return nil, err
	}
	if units[0].prepare != nil {
		units[0].prepare()
	}
	closeUnits := func() (err error) {
		for _, u := range slices.Backward(units) {
			err = errors.Join(err, u.close())
		}
		return err
	}
	records, blobs := store.New(), &spool.Store{}
	var images *image.Store // most commands need no images
	if want.Image != "" {
		if images, err = openLocalImages(h, &cfg); err != nil {
			return nil, errors.Join(err, closeUnits())
		}
		inner := closeUnits
		closeUnits = func() error { return errors.Join(images.Close(), inner()) }
	}
	reach, err := egressOptions(&cfg)
	if err != nil {
		return nil, errors.Join(err, closeUnits())
	}
	opts := service.Options{
		Limits:      localLimits(&cfg),
		Store:       records,
		Logs:        logbook.New(),
		Blobs:       blobs,
		Policy:      localPolicy(&cfg),
		Egress:      reach,
		Require:     service.CoreProtections(),
		Lifetime:    runtime.LifetimeCreator,
		Concurrency: -1, // no limit for the user of this machine
	}
	if images != nil {
		opts.Images = images
	}
	if data, err := localData(h, &cfg); err == nil {
		opts.Packages = packageOptions(&cfg, data)
	}
	if data, err := localData(h, &cfg); err == nil && cfg.GoCache {
		caches := goCaches(data)
		opts.GoCache = func(image runtime.Root, _ string, wanted bool) string {
			dir := caches.Folder(image.Ref, image.Digest)
			if dir == "" && wanted && want.Note != nil {
				want.Note("this run compiles Go's standard library; belljar image go-cache %s compiles it once for all runs", image.Ref)
			}
			return dir
		}
	}
	e := &local.Bench{Engine: &local.Engine{}, MeasureIdle: scale{units[0]}.measureIdle, MeasureCrowd: scale{units[0]}.measureCrowd}
	for _, u := range units {
		opts.Runtimes = append(opts.Runtimes, u.Runtime)
	}
	svc, err := service.New(opts)
	if err != nil {
		return nil, errors.Join(err, closeUnits())
	}
	e.Service, e.WaitIdle = svc.As(service.Local()), svc.WaitIdle
	e.Kill = func(ctx context.Context, id string) error { // a run's sandbox has the run's id
		var errs []error
		for _, u := range units {
			errs = append(errs, u.Remove(ctx, id))
		}
		return errors.Join(errs...)
	}
	e.Close = func() error {
		err := svc.Close()
		ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
		defer cancel()
		for _, u := range units {
			if u.works(ctx) && u.sweep != nil {
				_, _ = u.sweep(ctx) // a later command or doctor reports the remains
			}
		}
		return errors.Join(err, blobs.Close(), records.Close(), closeUnits())
	}
	return e, nil
}

// localPolicy is the policy of commands without a server: a server's defaults, and the environment's trust levels.
func localPolicy(cfg *config.Config) service.Policy {
	p := service.DefaultPolicy()
	applyTrust(&p, cfg)
	applyImages(&p, cfg)
	applyEgress(&p, cfg, true)
	return p
}

// localLimits are the limits of commands without a server: the defaults, with the environment's timeouts.
func localLimits(cfg *config.Config) belljar.Limits {
	l, set, most := belljar.DefaultLimits(), cfg.Limits(), belljar.MaxLimits()
	l.StartupTimeoutSec = min(set.StartupTimeoutSec, most.StartupTimeoutSec)
	l.BuildTimeoutSec = min(set.BuildTimeoutSec, most.BuildTimeoutSec)
	l.TimeoutSec, l.GraceSec = min(set.TimeoutSec, most.TimeoutSec), set.GraceSec
	l.CPUTimeSec = min(set.CPUTimeSec, most.CPUTimeSec)
	return l
}

// selfTested is a runtime whose Probe also tests its protections, if it can.
type selfTested struct{ runtime.Runtime }

func (t selfTested) Probe(ctx context.Context) (runtime.Capabilities, error) {
	if tester, ok := runtime.As[runtime.Tester](t.Runtime); ok {
		return tester.Test(ctx)
	}
	return t.Runtime.Probe(ctx)
}

// candidates returns the runtimes to open, the requested one or the default first. Opening takes time, so others follow only if
// the request can select or list them.
func candidates(want local.Needs, cfg *config.Config) ([]string, error) {
	names, err := servedRuntimes(cfg, cmp.Or(want.Runtime, defaultRuntime(cfg)))
	if err == nil && !want.Choose && cfg.DefaultTrustLevel == "" {
		names = names[:1]
	}
	return names, err
}
