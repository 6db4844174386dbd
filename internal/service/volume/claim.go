package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Size returns the size of a requested workspace, in MiB; 0 for one in memory. It refuses a workspace that the caller may not have.
func (v *Volumes) Size(caller belljar.Caller, w belljar.Workspace) (mb int, err error) {
	if !w.OnDisk() {
		return 0, nil
	}
	if w.Volume == "" {
		return w.MB, v.allowed("workspace.mb", w.MB)
	}
	v.mu.Lock()
	d := v.all[v.folder(caller.ID, w.Volume)]
	v.mu.Unlock()
	switch {
	case d == nil && w.MB == 0:
		if err := v.allowed("workspace", 0); err != nil {
			return 0, err
		}
		return 0, notFound(w.Volume, makeHint)
	case d == nil:
		return w.MB, v.allowed("workspace.mb", w.MB)
	case w.MB != 0 && w.MB != d.MB:
		return 0, otherSize(d, w.MB, fmt.Sprintf("volume %q has %d MiB, and workspace.mb is %d", w.Volume, d.MB, w.MB), "leave workspace.mb out")
	}
	return d.MB, v.allowed("workspace", 0)
}

// otherSize refuses a volume whose size differs from that of a request.
func otherSize(d *disk, mb int, message, hint string) error {
	details := map[string]any{"field": "workspace.mb", "volume": d.Name, "provided": mb, "mb": d.MB}
	return &belljar.Error{Code: belljar.CodeConflict, Message: message, Details: details, Hint: hint}
}

// Claim reserves a workspace on disk for a sandbox, until it is dropped. It does nothing for one in memory, or if the sandbox already
// has one. With mayMake it creates a missing volume. It refuses a volume that another sandbox writes to, or whose size is not w.MB.
func (v *Volumes) Claim(ctx context.Context, id string, caller belljar.Caller, w belljar.Workspace, mayMake bool) error {
	if !w.OnDisk() || v.claimed(id) {
		return nil
	}
	if w.Volume == "" {
		d, err := v.make(ctx, caller.ID, w.MB)
		if err == nil {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.hold(id, d, false)
		}
		return err
	}
	v.mu.Lock()
	d := v.all[v.folder(caller.ID, w.Volume)]
	v.mu.Unlock()
	if d == nil && !mayMake {
		return notFound(w.Volume, makeHint) // it was removed after the admission
	}
	var err error
	if d == nil {
		d, err = v.create(ctx, caller, "workspace.mb", belljar.VolumeSpec{Name: w.Volume, MB: w.MB})
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if belljar.CodeOf(err) == belljar.CodeConflict { // a concurrent request was faster
		if d = v.all[v.folder(caller.ID, w.Volume)]; d != nil {
			err = nil
		}
	}
	switch {
	case err != nil:
		return err
	case v.all[d.dir] != d:
		return notFound(w.Volume, makeHint) // it was removed meanwhile
	case d.MB != w.MB: // it was made again after the admission
		return otherSize(d, w.MB, fmt.Sprintf("volume %q has %d MiB now, and the request was admitted with %d", w.Volume, d.MB, w.MB), "send the request again")
	case !w.ReadOnly && d.report().WrittenBy != "":
		return d.inUse("is written to by another sandbox")
	}
	v.hold(id, d, w.ReadOnly)
	return nil
}

// Reclaim is Claim for a live sandbox of a previous process, which has its disk.
func (v *Volumes) Reclaim(id string, caller belljar.Caller, w belljar.Workspace) {
	if !w.OnDisk() || v.claimed(id) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if w.Volume != "" {
		if d := v.all[v.folder(caller.ID, w.Volume)]; d != nil {
			v.hold(id, d, w.ReadOnly)
		}
		return
	}
	d := &disk{Volume: belljar.Volume{MB: w.MB, UserID: caller.ID}, uses: map[string]bool{}}
	d.room, _ = v.opts.Accounts.AllowArtifacts(context.Background(), caller.ID) // without it, the count is too low
	d.room.SetTo(d.bytes())
	v.hold(id, d, false)
}

func (v *Volumes) claimed(id string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.claims[id].disk != nil
}

// hold stores a claim. The caller holds mu.
func (v *Volumes) hold(id string, d *disk, readOnly bool) {
	d.uses[id] = !readOnly
	v.claims[id] = claim{d, readOnly}
}

// Drop ends the claim of a sandbox that was removed, or was not made.
func (v *Volumes) Drop(id string) {
	v.mu.Lock()
	c := v.claims[id]
	if c.disk != nil {
		delete(v.claims, id)
		delete(c.uses, id)
	}
	v.mu.Unlock()
	if c.disk != nil && c.Name == "" {
		v.discard(c.disk)
	}
}

// Bytes returns how much of a user's quota their workspaces on disk use.
func (v *Volumes) Bytes(user string) int64 { return v.BytesOfAll()[user] }

// BytesOfAll returns how much of their quota the workspaces on disk of each user use.
func (v *Volumes) BytesOfAll() map[string]int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	sums := map[string]int64{}
	for _, d := range v.all {
		sums[d.UserID] += d.bytes()
	}
	for _, c := range v.claims {
		if c.Name == "" {
			sums[c.UserID] += c.bytes()
		}
	}
	return sums
}

// Open completes the workspace of a sandbox that is about to be made, with its claimed disk. The caller calls made when the sandbox
// exists, or could not be made.
func (v *Volumes) Open(id string, w *runtime.Workspace) (made func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.claims[id]
	if c.disk == nil {
		return nil, fmt.Errorf("sandbox %s has claimed no disk", id)
	}
	w.Medium, w.Image, w.ReadOnly = runtime.MediumDisk, filepath.Join(c.dir, imageName), c.readOnly
	if c.Name != "" {
		w.Lock = filepath.Join(c.dir, lockName)
		return func() {}, nil
	}
	return func() {
		// The path is not needed from here on: the sandbox has the image mounted.
		if err := os.RemoveAll(c.dir); err != nil {
			v.opts.Log.Error("workspace on disk cannot be removed", "folder", c.dir, "err", err)
		}
	}, nil
}
