package file

import (
	"context"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// Mkdir makes a directory and its parents.
func (v view) Mkdir(ctx context.Context, id, path string, mode uint32) error {
	clean, err := namedPath("path", path)
	if err != nil {
		return err
	}
	if mode > 0o777 {
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("mode %04o has more than permission bits", mode), Details: map[string]any{"field": "mode"},
		}
	}
	u, err := v.begin(ctx, id)
	if err != nil {
		return err
	}
	defer u.end()
	req := u.File(clean)
	req.Mode, req.Parents = mode, true
	if err := u.Agent.Mkdir(u.ctx, req); err != nil {
		return u.fault(clean, err)
	}
	return nil
}

// Rename moves a file or directory.
func (v view) Rename(ctx context.Context, id, from, to string, overwrite bool) error {
	old, err := namedPath("from", from)
	if err != nil {
		return err
	}
	clean, err := namedPath("to", to)
	if err != nil {
		return err
	}
	u, err := v.begin(ctx, id)
	if err != nil {
		return err
	}
	defer u.end()
	req := u.File(old)
	req.To, req.Parents, req.NoReplace = clean, true, !overwrite
	// Check the source first, so that a failure leaves no new folders.
	_, err = u.Agent.Stat(u.ctx, u.File(old))
	if err != nil {
		return u.fault(old, err)
	}
	if strings.HasPrefix(clean, old+"/") {
		return fault.Refuse("to", to, fmt.Sprintf("to %q is in %q: a folder cannot be moved into itself", cutText(clean, 200), cutText(old, 200)))
	}
	if err := u.Agent.Rename(u.ctx, req); err != nil {
		return u.fault(clean, err)
	}
	return nil
}

// Delete removes a file or a directory.
func (v view) Delete(ctx context.Context, id, path string, recursive bool) error {
	clean, err := namedPath("path", path)
	if err != nil {
		return err
	}
	u, err := v.begin(ctx, id)
	if err != nil {
		return err
	}
	defer u.end()
	req := u.File(clean)
	req.Recursive = recursive
	if err := u.Agent.Delete(u.ctx, req); err != nil {
		return u.fault(clean, err)
	}
	return nil
}
