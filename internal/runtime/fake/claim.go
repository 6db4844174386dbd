//go:build linux

package fake

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

var _ runtime.Claimer = (*Runtime)(nil)

// Blank implements [runtime.Claimer]. No limit is enforced here, so none is settled at birth.
func (r *Runtime) Blank(spec runtime.Spec) runtime.Spec {
	spec.ID, spec.Lease, spec.Root.Env, spec.Limits = "", 0, nil, belljar.Limits{}
	spec.Require = slices.Compact(slices.Sorted(slices.Values(spec.Require)))
	return spec
}

// Claim implements [runtime.Claimer].
func (r *Runtime) Claim(ctx context.Context, from string, spec runtime.Spec) (runtime.Sandbox, error) {
	b := r.host.find(from)
	if b == nil || !b.adopt(r) {
		return nil, fmt.Errorf("claim %s: %w", from, runtime.ErrNotFound)
	}
	err := r.check(spec)
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		err = r.host.rename(b, from, spec.ID, r.Blank(spec))
	}
	if errors.Is(err, runtime.ErrNotFound) {
		return nil, fmt.Errorf("claim %s: %w", from, err) // another caller has it by now
	}
	if err == nil && b.over() {
		err = runtime.ErrGone
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("claim %s: %w", from, err), b.end(runtime.Exit{Reason: runtime.ExitDestroyed}))
	}
	return &sandbox{box: b}, nil
}

// rename gives a box that was made from blank another name, which must be free.
func (h *Host) rename(b *box, from, to string, blank runtime.Spec) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.boxes[from] != b {
		return runtime.ErrNotFound
	}
	if !reflect.DeepEqual(b.born, blank) {
		return errors.New("it was made for something else")
	}
	if h.boxes[to] != nil {
		return &runtime.StepError{Step: "spec", Err: fmt.Errorf("sandbox %s exists", to)}
	}
	delete(h.boxes, from)
	h.boxes[to], b.id, b.born = b, to, runtime.Spec{}
	return nil
}

// name returns the box's name, which changes when it is claimed.
func (b *box) name() string {
	b.host.mu.Lock()
	defer b.host.mu.Unlock()
	return b.id
}

// over reports whether it has ended.
func (b *box) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}
