// Package volume manages workspaces on disk: it makes, stores and removes them, and tracks the sandboxes that use them.
//
// A workspace on disk is a folder with an image and a lock. That of a volume has a record, too, and stays until the volume is removed. Any other
// is removed as soon as its sandbox is made: the image exists as long as it is mounted. A folder gets its name when it is complete, and loses it
// before any of its files is removed, so that a crash leaves only folders that the next start removes.
package volume

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/fault"
)

// Options configures [Volumes].
type Options struct {
	// Dir has a folder for each workspace. It must be on the disk that Accounts watches.
	Dir string
	// MaxMB is the maximum size of a workspace, in MiB; 0 permits none.
	MaxMB int
	// Inodes is the maximum number of files and folders in a workspace.
	Inodes int
	// Make makes an image with room for so many bytes, and at most inodes files.
	Make func(path string, bytes, inodes int64) error
	// Unable is why this host cannot make any; nil if it can.
	Unable *runtime.Reason

	Accounts *admission.Accounts
	Record   func(event.Event) // records an event and fills in its time and component
	Now      func() time.Time
	Log      *slog.Logger
}

// Names in the folder of a workspace on disk, and the prefixes of incomplete folders.
const (
	imageName  = "image"
	lockName   = "lock"
	recordName = "volume.json"
	strayExt   = ".part"
)

// maxPerUser is how many volumes a user may have.
const maxPerUser = 100

// Volumes manages the workspaces on disk of a service. It is safe for concurrent use.
type Volumes struct {
	opts Options
	sync func(dir string) // makes the names in a folder durable

	mu     sync.Mutex
	all    map[string]*disk // volumes, by folder
	claims map[string]claim // by the id of a sandbox
}

// disk is a volume, or the workspace of one sandbox.
type disk struct {
	belljar.Volume // without UsedBy and WrittenBy
	dir            string
	room           *admission.Allowance // the part of its owner's quota that it uses
	uses           map[string]bool      // by the id of a sandbox; true if it may write
}

// claim is a sandbox's claim on a disk.
type claim struct {
	*disk
	readOnly bool
}

// New returns the workspaces on disk. It does not access the disk.
func New(opts Options) *Volumes {
	return &Volumes{opts: opts, sync: syncFolder, all: map[string]*disk{}, claims: map[string]claim{}}
}

// Load finds the volumes of a previous process, and removes its other workspaces. Call it once, before all other methods.
func (v *Volumes) Load(ctx context.Context) error {
	entries, err := os.ReadDir(v.opts.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the volumes: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(v.opts.Dir, e.Name())
		if strings.HasSuffix(e.Name(), strayExt) || strings.HasPrefix(e.Name(), "try-") {
			if err := os.RemoveAll(dir); err != nil {
				v.opts.Log.Error("remains of a workspace on disk cannot be removed", "folder", dir, "err", err)
			}
			continue
		}
		d := &disk{dir: dir, uses: map[string]bool{}}
		raw, err := os.ReadFile(filepath.Join(dir, recordName))
		if err == nil {
			err = json.Unmarshal(raw, &d.Volume)
		}
		if err == nil && v.folder(d.UserID, d.Name) != dir {
			err = errors.New("the folder is not that of its record")
		}
		if err == nil {
			d.room, err = v.opts.Accounts.AllowArtifacts(ctx, d.UserID)
		}
		if err != nil {
			v.opts.Log.Error("volume cannot be used", "folder", dir, "err", err)
			continue
		}
		d.room.SetTo(d.bytes())
		v.all[dir] = d
	}
	return nil
}

func (d *disk) bytes() int64 { return int64(d.MB) << 20 }

// folder returns the path of a user's volume.
func (v *Volumes) folder(user, name string) string {
	sum := sha256.Sum256([]byte(user + "\x00" + name))
	return filepath.Join(v.opts.Dir, hex.EncodeToString(sum[:16]))
}

// Unable returns why there can be no workspace on disk; nil if there can.
func (v *Volumes) Unable() *runtime.Reason {
	if v.opts.MaxMB == 0 {
		return &runtime.Reason{
			Code: "not_allowed", Step: "mount", Detail: "this server allows no workspaces on disk: " + rule + " is 0", Hint: "an operator sets " + rule + " to the size of the largest",
		}
	}
	return v.opts.Unable
}

// rule is the setting that permits workspaces on disk.
const rule = "SANDBOX_DISK_WORKSPACE_MB"

// allowed refuses a workspace on disk that the operator or the host does not permit.
func (v *Volumes) allowed(field string, mb int) error {
	switch no := v.Unable(); {
	case v.opts.MaxMB == 0:
		return &belljar.Error{Code: belljar.CodePolicyDenied, Message: no.Detail, Details: map[string]any{"rule": rule}, Hint: no.Hint}
	case no != nil:
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "this server cannot make workspaces on disk: " + no.Detail,
			Details: map[string]any{"available": true, "suggested": []string{}}, Hint: no.Hint,
		}
	case mb > v.opts.MaxMB:
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("a workspace on disk is limited to %d MiB here, got %d", v.opts.MaxMB, mb),
			Details: map[string]any{"field": field, "provided": mb, "maximum": v.opts.MaxMB, "rule": rule},
		}
	}
	return nil
}

// make makes a disk in a folder whose name marks it as incomplete.
func (v *Volumes) make(ctx context.Context, user string, mb int) (d *disk, err error) {
	d = &disk{Volume: belljar.Volume{MB: mb, UserID: user, CreatedAt: v.opts.Now()}, uses: map[string]bool{}}
	if err := v.opts.Accounts.RoomFor(ctx, user, d.bytes()); err != nil {
		return nil, err
	}
	if d.room, err = v.opts.Accounts.AllowArtifacts(ctx, user); err != nil {
		return nil, err
	}
	if !d.room.Reserve(d.bytes()) {
		used, most := d.room.Left()
		d.room.Close()
		e := &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("%d MiB on disk would exceed what you may keep: %v of %v MiB are in use", mb, admission.MiB(used), admission.MiB(most)),
			Details: map[string]any{"quota": "artifact_mb", "asked": mb, "used": admission.MiB(used), "limit": admission.MiB(most)},
			Hint:    "remove volumes (belljar volume rm) or snapshots; an operator can allow more with artifact_mb in your quota",
		}
		if d.bytes() > most {
			e.Hint = "ask for less; an operator can allow more with artifact_mb in your quota"
		}
		return nil, e
	}
	if err = os.MkdirAll(v.opts.Dir, 0o700); err == nil {
		d.dir = filepath.Join(v.opts.Dir, belljar.NewID()+strayExt)
		err = os.Mkdir(d.dir, 0o700)
	}
	if err == nil {
		err = v.opts.Make(filepath.Join(d.dir, imageName), d.bytes(), int64(v.opts.Inodes))
	}
	if err != nil {
		v.discard(d)
		return nil, fault.Record("make a workspace on disk", err)
	}
	return d, nil
}

// discard removes a disk whose folder is unnamed.
func (v *Volumes) discard(d *disk) {
	if err := os.RemoveAll(d.dir); d.dir != "" && err != nil {
		v.opts.Log.Error("workspace on disk cannot be removed", "folder", d.dir, "err", err)
	}
	d.room.SetTo(0)
	d.room.Close()
}

// create makes a volume.
func (v *Volumes) create(ctx context.Context, caller belljar.Caller, field string, spec belljar.VolumeSpec) (*disk, error) {
	if err := v.allowed(field, spec.MB); err != nil {
		return nil, err
	}
	v.mu.Lock()
	err := v.another(caller.ID, spec.Name)
	v.mu.Unlock()
	if err != nil {
		return nil, err
	}
	d, err := v.make(ctx, caller.ID, spec.MB)
	if err != nil {
		return nil, err
	}
	d.Name = spec.Name
	raw, err := json.Marshal(d.Volume)
	if err == nil {
		err = writeSynced(filepath.Join(d.dir, recordName), raw)
	}
	if err != nil {
		err = fault.Record("record a volume", err)
	} else {
		err = v.name(d)
	}
	if err != nil {
		v.discard(d) // without the lock, as in Remove
		return nil, err
	}
	v.sync(v.opts.Dir)
	v.record(event.VolumeMade, caller, d)
	return d, nil
}

// name gives a complete volume its name, unless another was made meanwhile.
func (v *Volumes) name(d *disk) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.another(d.UserID, d.Name); err != nil {
		return err
	}
	dir := v.folder(d.UserID, d.Name)
	if err := os.Rename(d.dir, dir); err != nil {
		return fault.Record("record a volume", err)
	}
	d.dir = dir
	v.all[dir] = d
	return nil
}

// another refuses a volume to a user that has one with that name, or the maximum number. The caller holds mu.
func (v *Volumes) another(user, name string) error {
	if v.all[v.folder(user, name)] != nil {
		return &belljar.Error{Code: belljar.CodeConflict, Message: fmt.Sprintf("you have a volume %q", name), Details: map[string]any{"volume": name}}
	}
	if n := len(v.of(user)); n >= maxPerUser {
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("you have %d volumes, and at most %d are allowed", n, maxPerUser),
			Details: map[string]any{"quota": "volumes", "used": n, "limit": maxPerUser}, Hint: "remove volumes: belljar volume rm",
		}
	}
	return nil
}

// of returns the volumes of a user by name. The caller holds mu.
func (v *Volumes) of(user string) (list []*disk) {
	for _, d := range v.all {
		if d.UserID == user {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b *disk) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (v *Volumes) record(name string, caller belljar.Caller, d *disk) {
	v.opts.Record(event.Event{Name: name, Caller: caller, Count: d.bytes(), Detail: map[string]string{"volume": d.Name}})
}

// report returns a volume with its uses. The caller holds mu.
func (d *disk) report() belljar.Volume {
	out := d.Volume
	out.UsedBy = slices.Sorted(maps.Keys(d.uses))
	for id, writes := range d.uses {
		if writes {
			out.WrittenBy = id
		}
	}
	return out
}

// inUse refuses an operation on a volume that is in use.
func (d *disk) inUse(what string) error {
	is := d.report()
	e := &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("volume %q %s: it is in use by %s", d.Name, what, strings.Join(is.UsedBy, ", ")),
		Details: map[string]any{"volume": d.Name, "used_by": is.UsedBy}, Hint: "delete the session, or wait for the run's end",
	}
	if is.WrittenBy != "" {
		e.Details["written_by"] = is.WrittenBy
	}
	return e
}

// notFound returns the error for a missing volume. hint is the next step.
func notFound(name, hint string) error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("you have no volume %.80q", name), Details: map[string]any{"volume": name}, Hint: hint,
	}
}

const (
	makeHint = "make it with belljar volume create, or with workspace.mb"
	listHint = "belljar volume ls lists yours"
)

func writeSynced(path string, raw []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder makes the names in a folder durable. On a busy disk that takes seconds: call it without the lock.
func syncFolder(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = f.Sync() // not every file system can
		_ = f.Close()
	}
}

// As returns the volumes as one caller sees them.
func (v *Volumes) As(caller belljar.Caller) belljar.Volumes { return view{v, caller} }

// view is the caller's own volumes.
type view struct {
	*Volumes
	caller belljar.Caller
}

var _ belljar.Volumes = view{}

// Create makes a volume.
func (v view) Create(ctx context.Context, spec belljar.VolumeSpec) (belljar.Volume, error) {
	if err := spec.Validate(); err != nil {
		return belljar.Volume{}, err
	}
	d, err := v.create(ctx, v.caller, "mb", spec)
	if err != nil {
		return belljar.Volume{}, err
	}
	return d.Volume, nil
}

// Get returns a volume.
func (v view) Get(_ context.Context, name string) (belljar.Volume, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := v.all[v.folder(v.caller.ID, name)]
	if d == nil {
		return belljar.Volume{}, notFound(name, listHint)
	}
	return d.report(), nil
}

// List returns the caller's volumes.
func (v view) List(context.Context) ([]belljar.Volume, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := []belljar.Volume{}
	for _, d := range v.of(v.caller.ID) {
		list = append(list, d.report())
	}
	return list, nil
}

// Remove removes a volume that no sandbox uses.
func (v view) Remove(_ context.Context, name string) error {
	d, err := v.unname(name)
	if err != nil {
		return err
	}
	v.sync(v.opts.Dir)
	v.discard(d)
	v.record(event.VolumeRemoved, v.caller, d)
	return nil
}

// unname removes the name of a volume that no sandbox uses. Removing its bytes takes seconds, and the lock must not be held for so long, because
// every admission needs it.
func (v view) unname(name string) (*disk, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	dir := v.folder(v.caller.ID, name)
	d := v.all[dir]
	switch {
	case d == nil:
		return nil, notFound(name, listHint)
	case len(d.uses) > 0:
		return nil, d.inUse("cannot be removed")
	}
	stray := filepath.Join(v.opts.Dir, belljar.NewID()+strayExt)
	if err := os.Rename(dir, stray); err != nil {
		return nil, fault.Record("remove a volume", err)
	}
	d.dir = stray
	delete(v.all, dir)
	return d, nil
}
