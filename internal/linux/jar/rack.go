//go:build linux

package jar

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/roster"
	"github.com/belljar/belljar/internal/linux/rundir"
)

// Options configure a rack. Kind, Agent, ValidID, Adopt and Errors are required.
type Options struct {
	Kind   string    // of jars: a folder in RunDir, e.g. native
	Agent  io.Reader // the program that the first process of every jar becomes; read to its end, and closed if it can be
	RunDir string    // holds sockets, locks and records; default as [rundir.Default]
	IDDir  string    // holds the claims of host ids, for all installations; default as [idmap.Options]
	// Installation separates the jars of different daemons. Default cli, which commands share.
	Installation string
	// Memory is the limit of all jars of the installation together, of all kinds, in bytes; 0 is [DefaultShare] of the
	// available memory. If a given limit cannot be enforced, no jar can be made, unless MemoryWeak is set.
	Memory     int64
	MemoryWeak bool
	// ValidID reports whether a name is valid for a jar or an installation.
	ValidID func(name string) bool
	// Adopt makes a box of a jar that was found again, by its whole record.
	Adopt func(j *Jar, record []byte) (Box, error)
	// Tidy, unless nil, removes a runtime's own files from an installation's folder when it has no jars.
	Tidy   func(dir string)
	Errors Errors
	Logger *slog.Logger // logs errors that cannot be returned; nil discards
}

// Box is the runtime's part of a jar.
type Box interface {
	// OnEnd receives how the jar has ended, before any other report: once, and without a lock held.
	OnEnd(End)
}

// End describes the end of a jar's first process.
type End struct {
	Destroyed bool            // by [Jar.Destroy]
	Status    unix.WaitStatus // if it was a child of this process
	Child     bool
}

// Rack holds the jars of one kind and installation. Its methods are safe for concurrent use.
type Rack struct {
	IDs      *idmap.Pool
	Cgroups  *cgroup.Host // nil if there are none
	Agent    *Sealed
	Programs forkexec.Pool

	// Reached observes the progress of a claim; nil except in tests.
	Reached func(point string)

	o      Options
	roster *roster.Roster
	null   *os.File
	images rootfs.Cache
	boot   string
	score  string // for the first processes of jars; "" to keep ours

	mu     sync.Mutex
	living map[string]*Jar
	births map[string]*making
}

// Open prepares a rack. It changes nothing outside RunDir. The caller must close it.
func Open(o Options) (*Rack, error) {
	o.Installation = cmp.Or(o.Installation, sharedInstallation)
	if !o.ValidID(o.Installation) {
		return nil, fmt.Errorf("installation %q is not a valid name", o.Installation)
	}
	o.RunDir = cmp.Or(o.RunDir, rundir.Default())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	r := &Rack{o: o, boot: roster.BootID(), score: usualScore(), living: map[string]*Jar{}, births: map[string]*making{}}
	if err := r.open(); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// sharedInstallation is the installation of commands, many of which may run simultaneously.
const sharedInstallation = "cli"

// DefaultShare is the part of the available memory that all jars may use together, in per cent.
const DefaultShare = 85

// open opens the resources of a rack.
func (r *Rack) open() (err error) {
	if r.roster, err = roster.Open(r.o.RunDir, []string{r.o.Kind, r.o.Installation}, r.o.ValidID); err != nil {
		return r.o.Errors.Step(StepState, err, rundir.Hint())
	}
	if r.null, err = os.OpenFile("/dev/null", os.O_RDWR, 0); err != nil {
		return r.o.Errors.Step(StepDev, err, "")
	}
	if r.Agent, err = seal(r.o.Agent); err != nil {
		return r.o.Errors.Step(StepAgent, err, sealHint(err))
	}
	if r.IDs, err = idmap.Discover(idmap.Options{Dir: r.o.IDDir}); err != nil {
		return r.o.Errors.Step(StepUserNS, err, "")
	}
	if r.Cgroups, err = cgroup.Discover(cgroup.Options{}); err != nil {
		r.o.Logger.Warn("cgroups cannot be used", "error", err)
		return nil
	}
	memory := r.o.Memory
	if memory == 0 {
		memory = r.Cgroups.Ceiling() / 100 * DefaultShare
	}
	// A quarter of the processes is for the host's other programs, this one among them: without threads it would crash.
	pids := r.Cgroups.PidsCeiling() / 4 * 3
	r.Cgroups.Bind(cgroup.Bound{Memory: memory, Pids: pids, Shared: r.o.Installation == sharedInstallation})
	return nil
}

func (r *Rack) release() error {
	var errs []error
	if r.null != nil {
		errs = append(errs, r.null.Close())
	}
	if r.Agent != nil {
		errs = append(errs, r.Agent.Close())
	}
	return errors.Join(errs...)
}

// withInstallation returns the rack of another installation, to examine its remains.
func (r *Rack) withInstallation(installation string) *Rack {
	o := r.o
	o.Installation = installation
	return &Rack{
		IDs: r.IDs, Cgroups: r.Cgroups, o: o, roster: r.roster.Sibling(installation), boot: r.boot, score: r.score,
		living: map[string]*Jar{}, births: map[string]*making{},
	}
}

// Close releases the resources of Open, and removes folders that are now empty. Living jars are not touched.
func (r *Rack) Close() error {
	r.Programs.Drain()
	r.tidy()
	return r.release()
}

// tidy removes the installation's folders if they have no jars.
func (r *Rack) tidy() {
	if r.Cgroups != nil {
		r.Cgroups.Sweep(r.group())
	}
	if r.o.Tidy != nil {
		if ids, err := r.List(); err == nil && len(ids) == 0 {
			r.o.Tidy(r.Dir())
		}
	}
	os.Remove(r.Dir()) // refused while there is a jar in it
}

// group returns the installation's name among cgroups.
func (r *Rack) group() string { return r.o.Installation + "/" + r.o.Kind }

// Dir returns the installation's folder.
func (r *Rack) Dir() string { return r.roster.Dir() }

// WardenSocket returns the socket of this installation's warden, which serves all kinds of jars.
func (r *Rack) WardenSocket() string {
	return filepath.Join(filepath.Dir(filepath.Dir(r.Dir())), "warden", r.o.Installation)
}

// List returns the names of all jars that have left a trace.
func (r *Rack) List() ([]string, error) { return r.roster.List() }

// OpenImage locks an image, so that it is not removed before the caller closes it, and examines it; see [rootfs.Cache.Open].
func (r *Rack) OpenImage(ctx context.Context, dir, lock string, user rootfs.User) (*rootfs.LockedTree, error) {
	held, err := r.images.Open(ctx, dir, lock, user)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", r.o.Errors.NoImage, err)
	}
	if err != nil {
		return nil, r.o.Errors.Step(StepImage, err, "")
	}
	return held, nil
}

// Record has the data that finds a jar again, as part of its runtime's own record.
type Record struct {
	roster.Process
	IDBase int             `json:"id_base,omitempty"` // base of its claim of host ids; 0 if it has none
	Cgroup []cgroup.Folder `json:"cgroup,omitempty"`  // full paths, because its maker may have been in another cgroup
}

// group returns the name of the record's cgroups, "" for none: the jar's first name.
func (rec Record) group() string {
	if len(rec.Cgroup) == 0 {
		return ""
	}
	return filepath.Base(rec.Cgroup[0].Path)
}

// Attach finds a living jar: one that was made or attached to in this process, or else by its record. [Errors.Unknown] if
// there is none.
func (r *Rack) Attach(id string) (Box, error) {
	j, err := r.attach(id)
	if err != nil {
		return nil, err
	}
	return j.box, nil
}

func (r *Rack) attach(id string) (*Jar, error) {
	if j := r.find(id); j != nil {
		return j, nil
	}
	return r.adopt(id)
}

func (r *Rack) find(id string) *Jar {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.living[id]
}

// adopt makes a jar of a process found by its record.
func (r *Rack) adopt(id string) (*Jar, error) {
	if !r.o.ValidID(id) {
		return nil, r.o.Errors.Unknown
	}
	var text json.RawMessage
	var rec Record
	if err := r.roster.Read(id, &text); err != nil || json.Unmarshal(text, &rec) != nil {
		return nil, r.o.Errors.Unknown
	}
	pidfd, err := rec.Open()
	if err != nil {
		return nil, r.o.Errors.Unknown
	}
	j := &Jar{rack: r, id: id, Pid: rec.Pid, Base: rec.IDBase}
	if len(rec.Cgroup) > 0 {
		j.Group, err = cgroup.Open(rec.Cgroup)
	}
	if err == nil {
		j.box, err = r.o.Adopt(j, text)
	}
	if err == nil {
		err = j.watch(pidfd, false)
	}
	if err != nil {
		unix.Close(pidfd)
		return nil, fmt.Errorf("sandbox %s: %w", id, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.living[id]; other != nil {
		j.pidfd.Close() // attached to twice simultaneously; this one's watch ends
		return other, nil
	}
	r.living[id] = j
	return j, nil
}

func (r *Rack) remember(j *Jar) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.living[j.id] = j
}

func (r *Rack) drop(j *Jar) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.living[j.id] == j {
		delete(r.living, j.id)
	}
}
