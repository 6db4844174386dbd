//go:build linux

package jar

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Points of a claim at which tests stop, in addition to those of [roster.Roster.Rename].
const (
	PointLimited = "limited" // the new limits are set
	PointNamed   = "named"   // the jar has its new name
)

// Claim renames the jar from, which was made or attached in this process, to the name to. settle adapts it to the caller, with
// exclusive access. A jar can be claimed once: [Errors.Unknown] if from does not exist or is already claimed, [Errors.Gone] if
// it has ended. A failed Claim removes the jar under both names.
//
// Its cgroups and its host ids keep their names, which the record contains. The record is in the folder and the lock file is
// the same file, so that the new name finds everything as soon as it exists. A daemon that is killed in the middle leaves a
// jar with one name or both: List returns them, and Remove removes it.
func (r *Rack) Claim(ctx context.Context, from, to string, settle func(Box) error) (Box, error) {
	j, had, err := r.find(from), false, r.o.Errors.Unknown
	if j != nil {
		had, err = j.claim(ctx, from, to, settle)
	}
	if err == nil {
		return j.box, nil
	}
	err = fmt.Errorf("claim sandbox %s: %w", from, err)
	if had {
		err = errors.Join(err, j.Destroy(ctx))
	}
	return nil, err
}

// claim gives the jar from to the caller. had is false if another caller had claimed it.
func (j *Jar) claim(ctx context.Context, from, to string, settle func(Box) error) (had bool, err error) {
	r := j.rack
	ctx, over, err := r.begin(ctx, to)
	if err != nil {
		return true, err
	}
	defer over()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.id != from {
		return false, r.o.Errors.Unknown
	}
	if err := settle(j.box); err != nil {
		return true, err
	}
	r.at(PointLimited)
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	if err := r.roster.Rename(from, to, r.Reached); err != nil {
		if errors.Is(err, os.ErrExist) {
			err = fmt.Errorf("sandbox %s exists", to)
		}
		return true, r.o.Errors.Step(StepState, err, "")
	}
	r.mu.Lock()
	j.id = to
	delete(r.living, from)
	r.living[to] = j
	r.mu.Unlock()
	r.at(PointNamed)
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	if j.dead() {
		return true, r.o.Errors.Gone
	}
	return true, nil
}

// Folder returns the path of a jar's files.
func (r *Rack) Folder(id string) string { return r.roster.Folder(id) }

// Rewrite replaces the record of a jar that is being claimed.
func (j *Jar) Rewrite(record any) error {
	if err := j.rack.roster.Write(j.id, record); err != nil {
		return j.rack.o.Errors.Step(StepState, err, "")
	}
	return nil
}

// Record replaces the record of a living jar.
func (j *Jar) Record(record any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Rewrite(record)
}

// at notifies a test of a claim's progress.
func (r *Rack) at(point string) {
	if r.Reached != nil {
		r.Reached(point)
	}
}
