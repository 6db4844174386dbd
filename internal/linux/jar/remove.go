//go:build linux

package jar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/roster"
)

// A jar has no record between its claim and the start of its first process. If its creator is killed in between, processes
// that live on are found by the lock. The first process has it open from its first moment to its last, whatever cgroups
// this host has. This requires a look at every process, which takes a while, and is only done for such a jar.

// Remove destroys the jar id, whether living, dead or under construction, and all of its remains. It is idempotent and
// returns when the jar is gone.
func (r *Rack) Remove(ctx context.Context, id string) error {
	if !r.o.ValidID(id) {
		return fmt.Errorf("%q is not a sandbox id", id)
	}
	if err := r.cancelBirth(ctx, id); err != nil {
		return fmt.Errorf("end the birth of sandbox %s: %w", id, err)
	}
	if j, err := r.attach(id); err == nil {
		return j.Destroy(ctx)
	}
	if err := r.endHalfMade(ctx, id); err != nil {
		return fmt.Errorf("end sandbox %s: %w", id, err) // its traces stay, so that it can be found again
	}
	return r.clean(ctx, id)
}

// clean removes all traces of a jar whose processes have ended.
func (r *Rack) clean(ctx context.Context, id string) error {
	var errs []error
	var rec Record
	err := r.roster.Read(id, &rec)
	if err == nil {
		if group, err := cgroup.Open(rec.Cgroup); err == nil {
			errs = append(errs, group.Remove(ctx))
		}
		if rec.IDBase > 0 {
			errs = append(errs, r.IDs.Forget(rec.IDBase))
		}
	} else {
		errs = append(errs, r.IDs.Sweep()) // a half-made jar does not record its ids
	}
	if r.Cgroups != nil && (err == nil || !r.grouped(id)) {
		errs = append(errs, r.Cgroups.Remove(ctx, r.group(), id))
	}
	if err := errors.Join(errs...); err != nil {
		return err // the remaining traces find it again
	}
	return r.roster.Forget(id)
}

// grouped reports whether a jar that had this name before it was claimed still uses the cgroups of that name.
func (r *Rack) grouped(name string) bool {
	ids, err := r.List()
	return err != nil || slices.ContainsFunc(ids, func(id string) bool {
		var rec Record
		return r.roster.Read(id, &rec) == nil && rec.group() == name
	})
}

// program describes how to recognise the first processes of jars.
func program() roster.Program {
	return roster.Program{Prefix: "/memfd:" + AgentName, LockIn: func(args []string) string {
		var config struct {
			Lock string `json:"lock"`
		}
		if len(args) < 2 || args[0] != AgentName || json.Unmarshal([]byte(args[len(args)-1]), &config) != nil {
			return ""
		}
		return config.Lock
	}}
}

// errUnseen means that a lock is held by a process that this one cannot see.
var errUnseen = errors.New("its lock is held by a process that cannot be found")

// endHalfMade kills the processes of a jar that cannot be attached to, and returns when it is gone.
func (r *Rack) endHalfMade(ctx context.Context, id string) error {
	const patience, longest = 2 * time.Second, 200 * time.Millisecond
	until := time.Now().Add(patience)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, longest) {
		lock, err := r.roster.Take(id, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return lock.Close() // no process lives
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		found, err := r.roster.Holders(id, program())
		if err != nil {
			return err
		}
		i := slices.IndexFunc(found, func(h roster.Holder) bool { return h.First })
		if i >= 0 {
			return r.end(ctx, id, found[i])
		}
		if len(found) > 0 {
			return nil // a creator, which removes its own jar
		}
		if time.Now().After(until) {
			return errUnseen
		}
		// The process has ended since, or is about to close its inherited descriptors, which takes a while on a busy
		// machine.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// end destroys the jar whose first process, or its predecessor, holds the lock.
func (r *Rack) end(ctx context.Context, id string, first roster.Holder) error {
	pidfd, err := unix.PidfdOpen(first.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil // it has ended
	}
	// Repeat the search, now that the pid cannot be reused.
	found, err := r.roster.Holders(id, program())
	if err != nil || !slices.Contains(found, first) {
		unix.Close(pidfd)
		return err
	}
	j := &Jar{rack: r, id: id, Pid: first.Pid}
	if err := j.watch(pidfd, false); err != nil {
		unix.Close(pidfd)
		return err
	}
	return j.Destroy(ctx)
}

// abandoned reports whether a jar whose lock is held is half-made and its creator gone.
func (r *Rack) abandoned(id string) bool {
	var rec Record
	if r.roster.Read(id, &rec) == nil {
		return false // decided without a look at every process
	}
	found, err := r.roster.Holders(id, program())
	if err != nil || len(found) == 0 || slices.ContainsFunc(found, func(h roster.Holder) bool { return !h.First }) {
		return false
	}
	return r.roster.Read(id, &rec) != nil // read it last: its creator may have written it and ended since
}
