//go:build linux

package idmap

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/lockfile"
)

// ErrExhausted means that every slot is claimed.
var ErrExhausted = errors.New("all user id ranges are in use")

// Range is one sandbox's ids.
type Range struct {
	UIDs, GIDs []Extent
	// Owner is the host id that owns the sandbox's user namespace, and that the kernel charges for its resources. It
	// belongs to the range and is mapped to no id inside. 0 is the claiming user: without privileges no other is
	// possible.
	Owner  int
	Shared bool // the ids are the user's own, shared by all of the user's sandboxes
	// Lock holds the claim while any process has it open; nil if Shared. It is close-on-exec.
	Lock *os.File
	Mode Mode
}

// Claim claims a range that no living sandbox on this machine has.
func (p *Pool) Claim() (*Range, error) {
	if p.Mode == ModeSingle {
		return &Range{
			Mode: ModeSingle, Shared: true,
			UIDs: []Extent{{Inside: 1000, Outside: p.uid, Count: 1}},
			GIDs: []Extent{{Inside: 1000, Outside: p.gid, Count: 1}},
		}, nil
	}
	if err := p.openDir(); err != nil {
		return nil, fmt.Errorf("claim user ids: %w", err)
	}
	// Start at a random slot, so that few slots are tried even among a thousand claims.
	start := rand.IntN(max(p.Slots, 1))
	for i := range p.Slots {
		slot := p.slot((start + i) % p.Slots)
		lock, err := lockfile.Open(filepath.Join(p.dir, strconv.FormatInt(slot*p.layout.size, 10)), os.O_CREATE, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("claim user ids: %w", err)
		}
		extents := p.layout.extents(slot)
		r := &Range{Mode: p.Mode, UIDs: extents, GIDs: extents, Lock: lock}
		if p.owned {
			r.Owner = int(p.layout.owner(slot))
		}
		return r, nil
	}
	return nil, ErrExhausted
}

// slot returns the number of the pool's i-th slot among all ids of the host.
func (p *Pool) slot(i int) int64 {
	n := int64(i)
	for _, s := range p.spans {
		if n < s.size() {
			return s.first + n
		}
		n -= s.size()
	}
	panic("idmap: slot out of range")
}

// Base returns the first host id of the range, which identifies the claim; -1 if Shared.
func (r *Range) Base() int {
	if r.Shared {
		return -1
	}
	return r.UIDs[0].Outside
}

// HostUID returns the host's id for a user inside; -1 if the range does not map it.
func (r *Range) HostUID(inside int) int { return outside(r.UIDs, inside) }

// HostGID returns the host's id for a group inside; -1 if the range does not map it.
func (r *Range) HostGID(inside int) int { return outside(r.GIDs, inside) }

func outside(extents []Extent, inside int) int {
	for _, e := range extents {
		if inside >= e.Inside && inside < e.Inside+e.Count {
			return e.Outside + inside - e.Inside
		}
	}
	return -1
}

// Close closes only this process's hold on the claim. It may be called twice.
func (r *Range) Close() {
	if r.Lock != nil {
		r.Lock.Close()
	}
}

// Release closes the range and, if no sandbox holds the claim, removes its lock file. It may be called twice.
func (r *Range) Release() error {
	r.Close()
	if r.Lock == nil {
		return nil
	}
	return forget(r.Lock.Name())
}

// Forget removes the lock file of the claim with that base, unless a sandbox still holds it. Use it in a daemon that did
// not make the claim.
func (p *Pool) Forget(base int) error {
	if base < 0 {
		return nil
	}
	return forget(filepath.Join(p.dir, strconv.Itoa(base)))
}

// Sweep removes every claim that is no longer held. Release leaves such a claim if a process that was just being forked
// still had its descriptor.
func (p *Pool) Sweep() error {
	entries, err := os.ReadDir(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list claims of user ids: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if base, err := strconv.Atoi(e.Name()); err == nil {
			errs = append(errs, p.Forget(base))
		}
	}
	return errors.Join(errs...)
}

func forget(name string) error {
	lock, err := lockfile.Open(name, os.O_RDONLY, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("forget user ids: %w", err)
	}
	defer lock.Close()
	if err := os.Remove(name); err != nil {
		return fmt.Errorf("forget user ids: %w", err)
	}
	return nil
}
