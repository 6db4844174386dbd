package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/recovery"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/workspace/remote"
)

// openRuntimes opens the server's runtimes, the default first. It fails if the default is unavailable, and never substitutes another
// runtime. Other unavailable runtimes stay in the list with their reasons.
func openRuntimes(h *Host, cfg *config.Config, data *dataDir, records store.Store, required []string, d *server) ([]runtime.Runtime, error) {
	installation, _, err := data.secret("installation", func() string { return "serve-" + randomHex(6) })
	if err != nil {
		return nil, err
	}
	if !belljar.ValidID(installation) {
		return nil, damagedSecret(data.in("installation"), "live sessions are lost", fmt.Errorf("%.40q is not a name", installation))
	}
	names, err := servedRuntimes(cfg, defaultRuntime(cfg))
	if err != nil {
		return nil, err
	}
	release, err := data.claim(installation)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, release)
	o := openOptions{installation: installation, cfg: cfg, log: d.log, state: data.in("sprites"), observe: d.observe}
	units, err := openUnits(h, names, o)
	if err != nil {
		return nil, err
	}
	var list []runtime.Runtime
	for _, u := range units {
		d.closers = append(d.closers, u.close)
		list = append(list, u.Runtime)
		if m, ok := u.Runtime.(remote.Machine); ok {
			d.machine = m
		}
	}
	if err := d.adopt(cfg, units[0], required); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	for _, u := range units {
		d.cleanUp(ctx, u)
	}
	return list, d.removeUnserved(h, records, names, o)
}

// unservedTime bounds the removal of the sandboxes of a runtime that is no longer served.
const unservedTime = 30 * time.Second

// removeUnserved removes the sandboxes of an earlier server on runtimes that this one does not serve, of the sessions and runs on record. They would
// live on until their leases are over, with their secrets, networks and volumes, and those that use them are about to be recorded as lost.
func (d *server) removeUnserved(h *Host, records store.Store, served []string, o openOptions) error {
	ctx, cancel := context.WithTimeout(context.Background(), unservedTime)
	defer cancel()
	runs, err := records.Runs().Unfinished(ctx)
	if err != nil {
		return err
	}
	sessions, err := records.Sessions().Unfinished(ctx)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, r := range runs {
		found[r.Runtime] = true
	}
	for _, x := range sessions {
		found[x.Runtime] = true
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if name == "" || slices.Contains(served, name) {
			continue
		}
		n, err := removeAll(h, name, o)
		if n > 0 {
			d.log.Info("removed sandboxes of a runtime that is no longer served", "runtime", name, "sandboxes", n)
		}
		if err != nil {
			d.log.Warn("sandboxes of a runtime that is no longer served may live on until their leases are over", "runtime", name, "lease", o.cfg.Lease, "err", err)
		}
	}
	return nil
}

// removeAll opens a runtime to remove all of its sandboxes, and returns how many it removed.
func removeAll(h *Host, name string, o openOptions) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), unservedTime)
	defer cancel()
	units, err := openUnits(h, []string{name}, o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, units[0].close()) }()
	ids, err := units[0].List(ctx)
	var mu sync.Mutex
	recovery.ForEach(ids, func(id string) {
		no := units[0].Remove(ctx, id)
		mu.Lock()
		defer mu.Unlock()
		if err = errors.Join(err, no); no == nil {
			n++
		}
	})
	return n, err
}

// adopt checks the default runtime. A test that shows nothing about the host, as when an earlier server's sandboxes fill it, does
// not end the start.
func (d *server) adopt(cfg *config.Config, u unit, required []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	caps, err := u.Probe(ctx)
	if err != nil {
		return fmt.Errorf("runtime %s: %w", u.Name(), err)
	}
	if caps.Available {
		if tested, err := (selfTested{u.Runtime}).Probe(ctx); err == nil {
			caps = tested
		} else {
			d.log.Warn("the default runtime could not be tested", "runtime", u.Name(), "err", err)
		}
	}
	if !caps.Available {
		e := &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "runtime " + u.Name() + " does not work on this host",
			Hint: "run \"" + doctor(cfg) + "\" to see why, and how to fix it",
		}
		if len(caps.Reasons) > 0 {
			e.Message += ": " + caps.Reasons[0].Detail
		}
		return e
	}
	if err := checkHost(cfg, required, caps); err != nil {
		return err
	}
	d.runtime, d.weaker = u.Name(), notEnforced(caps)
	d.reason = "the default here"
	if u.Name() == "native" {
		d.reason = "Linux namespaces as root, the default; nothing else needs to be installed"
		if caps.Rootless {
			d.reason = "Linux namespaces without root, the default; \"" + doctor(cfg) + "\" shows what root would add"
		}
	}
	if origin, set := cfg.Set("SANDBOX_DEFAULT_RUNTIME"); set {
		d.reason = "set by " + origin
	}
	return nil
}

// cleanUp removes the remains of dead sandboxes.
func (d *server) cleanUp(ctx context.Context, u unit) {
	if u.fileless != nil {
		if n, err := u.fileless(ctx); err != nil || n > 0 {
			d.log.Warn("ended sandboxes whose files were removed", "runtime", u.Name(), "sandboxes", n, "err", err)
		}
	}
	if u.others != nil {
		d.background(func(ctx context.Context) {
			if n, err := u.others(ctx); n > 0 || err != nil && ctx.Err() == nil {
				d.log.Info("removed what dead sandboxes of other installations left", "runtime", u.Name(), "sandboxes", n, "err", err)
			}
		})
	}
}

// applyTrust copies the configuration's trust levels into a policy.
func applyTrust(p *service.Policy, cfg *config.Config) {
	p.DefaultTrust, p.TrustLevels = belljar.TrustLevel(cfg.DefaultTrustLevel), map[belljar.TrustLevel]runtime.Isolation{}
	for level, least := range cfg.Trust() {
		p.TrustLevels[level] = runtime.Isolation(least)
	}
}

// checkTrust refuses a default trust level for which no runtime is strong enough: users could run nothing. A runtime that is
// unavailable now may be strong enough later.
func checkTrust(ctx context.Context, p service.Policy, runtimes []runtime.Runtime) error {
	if p.DefaultTrust == "" || !p.EnableExecution {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	least := p.WeakestIsolation(p.DefaultTrust)
	for _, rt := range runtimes {
		caps, err := rt.Probe(ctx)
		if err != nil || !caps.Available || caps.Isolation.AtLeast(least) {
			return nil
		}
	}
	return mistake("add a runtime to SANDBOX_RUNTIMES, or change SANDBOX_TRUST_LEVELS",
		"SANDBOX_DEFAULT_TRUST_LEVEL: level %s needs isolation %s, and no runtime of SANDBOX_RUNTIMES has it", p.DefaultTrust, least)
}

// profileHash identifies a seccomp profile in the policy hash: the SHA-256 of its contents as compact JSON with sorted keys. ""
// for none.
func profileHash(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	raw, err := os.ReadFile(path)
	var profile any
	if err == nil {
		err = json.Unmarshal(raw, &profile)
	}
	if err == nil {
		raw, err = json.Marshal(profile)
	}
	if err != nil {
		return "", &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "the seccomp profile cannot be used", Err: err,
			Hint: "SANDBOX_DOCKER_SECCOMP names a JSON file in Docker's form; unset, Belljar's own profile is in force",
		}
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
