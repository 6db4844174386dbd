package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/char"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/shelf"
	"github.com/belljar/belljar/internal/store"
)

// Bounds of the output of an installation.
const (
	maxLock     = 32 << 20 // bytes of the tool's lock file
	maxValues   = 1 << 18  // JSON values in it, by [char.Values]
	maxLocked   = 5000     // packages
	maxKept     = 1 << 20  // bytes of their names, versions and hashes, which each run's record contains
	maxPrinted  = 256 << 10
	maxReported = 300 // lines
	inodes      = 200_000
	memoryMB    = 512
)

// usageTime bounds the reading of a sandbox's usage.
const usageTime = 2 * time.Second

// Memory returns the maximum memory of an installation, in MiB, for layers of that size.
func Memory(layerMB int) int { return memoryMB + 2*layerMB }

// side is an installation in its sandbox.
type side struct {
	*Installer
	*box.Box
	tool     *tool
	order    order
	ask      Order
	place    *placement.Placement
	reported int
}

// sidePlace returns the placement of an installation for the sandbox of a placement, within its reservation.
func (i *Installer) sidePlace(of *placement.Placement) placement.Placement {
	p, files := *of, 2*i.opts.MB
	p.Broker, p.Egress, p.Image.Layers, p.CompilerMB, p.InstallMB = nil, nil, nil, 0, 0
	p.Env, p.Files = nil, nil // set by presets
	p.InMemory(0)
	p.Limits.MemoryMB = max(memoryMB, min(p.Limits.MemoryMB, of.ReservedMB()-files)) // a build may need more than usual
	p.Limits.WorkspaceMB, p.Limits.Inodes = files, max(p.Limits.Inodes, inodes)
	p.Limits.Pids, p.Limits.NoFile = max(p.Limits.Pids, 256), max(p.Limits.NoFile, 1024)
	p.Limits.NProc = p.Limits.Pids
	p.Limits.TimeoutSec = i.opts.Time.Seconds()
	p.Bind()
	return p
}

// install installs packages in a side sandbox, and calls take for the result before the sandbox is removed.
func (i *Installer) install(ctx context.Context, t *tool, wanted []string, o Order, take func(ctx context.Context, b *box.Box, lock []belljar.Package, whole bool) error) error {
	p := i.sidePlace(o.Placement)
	p.Exec = o.Packages.Build
	s := &side{Installer: i, tool: t, ask: o, place: &p, order: order{wanted: wanted, build: o.Packages.Build, mirror: i.mirror(t)}}
	var used store.Charge
	report, err := i.opts.Boxes.Side(ctx, box.SideOrder{Caller: o.Caller, Placement: &p, Made: o.Made, Egress: o.Record, Time: i.opts.Time}, func(ctx context.Context, b *box.Box) error {
		s.Box = b
		b.Shared.Most(p.InForce())
		b.Shared.New()
		defer func() { used.CPUSeconds = cpuOf(ctx, b) }()
		lock, err := s.run(ctx)
		if err == nil {
			err = take(ctx, b, lock, s.whole(ctx))
		}
		return err
	})
	if report != nil {
		used.EgressBytes = report.BytesIn + report.BytesOut
	}
	if o.Charge != nil && used != (store.Charge{}) {
		o.Charge(used)
	}
	return err
}

// cpuOf returns the CPU seconds of a sandbox so far; 0 if they are unknown.
func cpuOf(ctx context.Context, b *box.Box) float64 {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageTime)
	defer cancel()
	b.Shared.Now(ctx, b)
	if cpu := b.Shared.CPU(); cpu != nil {
		return cpu.Seconds()
	}
	return 0
}

// run installs the packages.
func (s *side) run(ctx context.Context) ([]belljar.Package, error) {
	for _, dir := range append([]string{layerFolder, "tmp"}, s.tool.folders...) {
		req := s.File(dir)
		req.Mode, req.Parents = 0o755, true
		if err := s.Agent.Mkdir(ctx, req); err != nil {
			return nil, err
		}
	}
	if ca := s.opts.Boxes.Egress.CA; len(ca) > 0 {
		if err := s.Agent.Trust(ctx, s.File(""), ca); err != nil {
			return nil, err
		}
	}
	list, err := s.indexes(ctx)
	if err != nil {
		return nil, err
	}
	policy, err := s.reach(ctx, list)
	if err != nil {
		return nil, err
	}
	if err := s.Network.Set(ctx, policy); err != nil {
		return nil, err
	}
	if err := s.Network.Pin(ctx); err != nil {
		return nil, err
	}
	s.tell("installing " + strings.Join(s.order.wanted, ", "))
	text, exit, err := s.exec(ctx, s.tool.command(s.order), s.tool.cwd, true)
	if err != nil {
		return nil, err
	}
	if exit.Code != 0 || exit.Signal != 0 {
		return nil, s.failed(string(text), exit)
	}
	return s.lock(ctx)
}

// indexes returns the URLs of the indexes, the main one last: the operator's, else the image's. The server's rules must permit those of an
// image other than host, so that an image cannot decide what a sandbox may reach.
func (s *side) indexes(ctx context.Context) ([]*url.URL, error) {
	if s.order.mirror != nil {
		return []*url.URL{s.order.mirror}, nil
	}
	text, exit, err := s.exec(ctx, s.tool.ask, "", false)
	if err != nil {
		return nil, err
	}
	list, err := parseAsked(text)
	switch {
	case exit.Code == noTool:
		return nil, s.missing()
	case exit.Code != 0 || exit.Signal != 0 || err != nil:
		return nil, &belljar.Error{
			Code: belljar.CodeImageInvalid, Message: s.tool.name + ": it does not say which index the image sets",
			Details: map[string]any{"field": "packages." + s.tool.name}, Hint: "an operator sets one in SANDBOX_PACKAGE_MIRRORS",
		}
	case len(list) > maxIndexes:
		return nil, &belljar.Error{
			Code: belljar.CodeImageInvalid, Message: fmt.Sprintf("%s: the image sets %d indexes, and at most %d are used", s.tool.name, len(list), maxIndexes),
			Details: map[string]any{"field": "packages." + s.tool.name}, Hint: "take another image",
		}
	}
	for _, u := range list {
		if s.place.Image.Ref != runtime.HostRef && !s.opts.Egress.Covers(s.ask.Caller, s.ask.Trust, u.Hostname(), port(u)) {
			return nil, notCovered(s.tool, u)
		}
	}
	return list, nil
}

// reach returns the policy of the installation: the indexes, and the hosts of the files to which they refer.
func (s *side) reach(ctx context.Context, list []*url.URL) (*egress.Policy, error) {
	hosts := map[string]bool{}
	for _, u := range list {
		hosts[strings.ToLower(u.Hostname())] = true
	}
	policy := func() (*egress.Policy, error) {
		return s.opts.Egress.Index(s.ask.Caller, s.ask.Trust, slices.Sorted(maps.Keys(hosts)), s.ask.Egress)
	}
	only, err := policy()
	if err != nil {
		return nil, err
	}
	with := s.opts.Boxes.Egress
	roots, err := with.Roots()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range s.order.wanted {
		names = append(names, s.tool.project(r))
	}
	s.order.found = make([]found, len(names))
	missing := make([]int, len(names)) // in how many indexes
	for _, u := range list {
		x := open(s.tool, u, roots, egress.NewGate(egress.Options{Policy: *only, Resolver: with.Resolver, Dial: with.Dial}))
		answers, err := x.ask(ctx, names)
		x.close()
		if err != nil {
			return nil, err
		}
		for n, f := range answers {
			if s.order.mirror == nil {
				if err := s.leads(x, s.place.Image.Ref, s.ask, f.hosts, n); err != nil {
					return nil, err
				}
			}
			if maps.Copy(hosts, f.hosts); f.missing {
				missing[n]++
			}
			s.order.found[n].built = s.order.found[n].built || f.built
			if missing[n] == len(list) {
				return nil, x.fault(errMissing, names[n], n)
			}
		}
	}
	return policy()
}

// environment returns the environment of the tool.
func (s *side) environment() []string {
	own := map[string]string{"TMPDIR": path.Join(belljar.WorkspaceDir, "tmp")}
	if s.order.mirror != nil {
		own["PIP_EXTRA_INDEX_URL"] = noExtra
	}
	if len(s.opts.Boxes.Egress.CA) > 0 {
		placement.Trusting(own)
		own["PIP_CERT"], own["npm_config_cafile"] = own["SSL_CERT_FILE"], own["SSL_CERT_FILE"] // overrides the image's settings
	}
	return append(s.place.Environment("", own), s.tool.env...)
}

// exec runs a command of the tool, and returns its output up to a bound.
func (s *side) exec(ctx context.Context, argv []string, cwd string, tell bool) ([]byte, wire.Exit, error) {
	var out printout
	exit, err := s.Run(ctx, wire.Exec{Argv: argv, Env: s.environment(), Cwd: cwd, Rlimits: s.place.Rlimits(), TimeoutMS: s.opts.Time.Milliseconds()}, func(stream wire.Stream, p []byte) {
		if !tell && stream != wire.Stdout {
			return
		}
		out.add(p)
		if tell {
			out.lines(p, s.tell)
		}
	})
	if e := box.AtHardLimit(s.place.InForce(), err); e != nil {
		return nil, exit, e
	}
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Code == wire.CodeExecFailed {
		return nil, exit, s.missing()
	}
	return out.kept(), exit, err
}

// tell passes on a line of the tool, without terminal control characters, since packages can influence it.
func (s *side) tell(text string) {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�")))
	if s.reported++; text != "" && s.reported <= maxReported {
		s.ask.Tell(s.tool.name, clip(text))
	}
}

// lock reads the list of installed packages.
func (s *side) lock(ctx context.Context) ([]belljar.Package, error) {
	var r io.ReadCloser
	var err error
	for _, file := range s.tool.locks {
		if r, _, err = s.Agent.ReadFile(ctx, s.File(file)); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read what was installed: %w", err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxLock+1))
	if err != nil {
		return nil, fmt.Errorf("read what was installed: %w", err)
	}
	lock, err := s.tool.read(text)
	if err != nil {
		return nil, &belljar.Error{Code: belljar.CodeImageInvalid, Message: s.tool.name + ": what it says of the installation cannot be read", Err: err}
	}
	return lock, nil
}

// whole reports whether the tool left out no package that fits the machine.
func (s *side) whole(ctx context.Context) bool {
	if s.tool.left == nil {
		return true
	}
	text, exit, err := s.exec(ctx, s.tool.left, s.tool.cwd, false)
	if left := strings.Fields(string(text)); len(left) > 0 {
		s.tell("optional packages are missing: " + strings.Join(left, ", "))
	}
	return err == nil && exit.Code == 0 && exit.Signal == 0 && len(text) == 0
}

// read reads a lock file, which an image's own tool may have written.
func (t *tool) read(text []byte) ([]belljar.Package, error) {
	if len(text) > maxLock || char.Values(text) > maxValues {
		return nil, errors.New("it is too long")
	}
	lock, err := t.locked(text)
	if err == nil && unfit(lock) {
		err = errors.New("it has no packages, or too many")
	}
	return lock, err
}

// unfit reports whether a lock is empty, although packages were installed, or too large for a record.
func unfit(lock []belljar.Package) bool {
	kept := 0
	for _, p := range lock {
		kept += len(p.Name) + len(p.Version) + len(p.Hash)
	}
	return len(lock) == 0 || len(lock) > maxLocked || kept > maxKept
}

// missing is the error of an image without the tool.
func (s *side) missing() error {
	return &belljar.Error{
		Code: belljar.CodeImageInvalid, Message: fmt.Sprintf("%s: the image %s has none", s.tool.name, s.place.Image.Ref),
		Details: map[string]any{"field": s.tool.about(), "image": s.place.Image.Ref}, Hint: "take an image with " + s.tool.name,
	}
}

// failed explains why the tool failed.
func (s *side) failed(text string, exit wire.Exit) error {
	if e := s.tool.fault(text, s.order); e != nil {
		return e
	}
	e := &belljar.Error{Code: belljar.CodeInvalidRequest, Details: map[string]any{"field": "packages." + s.tool.name}}
	switch {
	case exit.Cause == wire.CauseTimeout:
		return box.ErrSideTime
	case strings.Contains(text, "No space left"), strings.Contains(text, "ENOSPC"):
		return shelf.ErrTooLarge
	case exit.Signal != 0:
		e.Message = fmt.Sprintf("%s: signal %d ended it", s.tool.name, exit.Signal)
		e.Hint = "it may need more memory: resources.memory_mb (--memory)"
	default:
		e.Message, e.Hint = s.tool.name+": "+lastError(text, "ERROR: "), logHint
	}
	return e
}

// fault converts an error for the caller.
func (i *Installer) fault(ctx context.Context, t *tool, err error) error {
	e := &belljar.Error{Details: map[string]any{"field": "packages." + t.name}}
	var own *belljar.Error
	var step *runtime.StepError
	var refused *wire.Error
	var ended *box.SideExitError
	switch {
	case errors.As(err, &own):
		return own
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, box.ErrSideTime):
		e.Code, e.Message = belljar.CodeTimeout, fmt.Sprintf("%s: the installation took longer than %v", t.name, i.opts.Time)
		e.Hint = "ask for fewer packages, or have the operator set SANDBOX_PACKAGE_TIMEOUT_SEC"
	case errors.Is(err, shelf.ErrTooLarge), errors.As(err, &refused) && (refused.Code == wire.CodeNoSpace || refused.Code == wire.CodeTooLarge):
		e.Code, e.Message = belljar.CodeTooLarge, fmt.Sprintf("%s: the packages are larger than %d MiB", t.name, i.opts.MB)
		e.Hint = "ask for fewer packages, or have the operator set SANDBOX_PACKAGE_MAX_MB"
	case errors.Is(err, shelf.ErrBad):
		e.Code, e.Message = belljar.CodeInvalidRequest, t.name+": "+err.Error()
		e.Hint = "leave out the package that brings it"
	case errors.As(err, &ended):
		e.Code, e.Message = belljar.CodeInvalidRequest, t.name+": "+ended.Error()
		e.Hint = "it may need more memory: resources.memory_mb (--memory)"
	case errors.As(err, &step):
		return err
	default:
		return noRoom(t.name+": keep the packages", err)
	}
	return e
}

// noRoom converts an error of the host, which may be a full disk.
func noRoom(doing string, err error) error {
	e := &belljar.Error{Code: belljar.CodeInternal, Message: doing, Err: err}
	if fault.Full(err) {
		e.Code, e.Message, e.Hint = belljar.CodeDiskFull, "the disk for packages is full", "free space on the host, or lower SANDBOX_PACKAGE_KEEP_MB"
	}
	return e
}
