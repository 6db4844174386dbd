package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/runtime"
)

// Examine implements [local.Host]. Runtimes that the settings leave out are tested, too.
func (h *Host) Examine(ctx context.Context, file string) (list []local.Runtime, err error) {
	cfg, err := config.Load(config.Sources{File: file, Env: h.Env})
	if err != nil {
		return nil, err
	}
	for _, name := range runtimeNames(&cfg) {
		caps, err := examine(ctx, h, name, &cfg)
		if err != nil {
			return nil, fmt.Errorf("probing %s: %w", name, err)
		}
		list = append(list, local.Runtime{Name: name, Capabilities: caps})
	}
	return list, nil
}

// Elsewhere implements [local.Host].
func (h *Host) Elsewhere(ctx context.Context, file string) (asked bool, err error) {
	cfg, err := config.Load(config.Sources{File: file, Env: h.Env})
	if err != nil || cfg.WorkspaceMode != "remote" {
		return false, err
	}
	d := &server{}
	_, err = d.openRemote(ctx, &cfg)
	for _, end := range d.closers {
		err = errors.Join(err, end())
	}
	return true, err
}

// examine tests a runtime. A runtime that fails to open counts as unavailable, with the error as the reason.
func examine(ctx context.Context, h *Host, name string, cfg *config.Config) (runtime.Capabilities, error) {
	units, err := openUnits(h, []string{name}, openOptions{cfg: cfg})
	if err != nil {
		why := runtime.Reason{Code: "host_prerequisite_missing", Detail: strings.TrimPrefix(err.Error(), "runtime "+name+": "), Hint: belljar.HintOf(err)}
		var step *runtime.StepError
		if errors.As(err, &step) {
			why.Step, why.Detail, why.Hint = step.Step, step.Err.Error(), step.Hint
		}
		if errors.Is(err, fs.ErrPermission) {
			why.Code = "host_permission_denied"
		}
		return runtime.Capabilities{State: runtime.StateHostGated, Reasons: []runtime.Reason{why}}, nil
	}
	u := units[0]
	defer u.close()
	caps, err := selfTested{u.Runtime}.Probe(ctx)
	if err == nil && caps.Available && u.sweep != nil {
		if _, left := u.sweep(ctx); left != nil {
			h.Print("what killed processes have left is still there: %v", left)
		}
	}
	return caps, err
}
