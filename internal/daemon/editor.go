package daemon

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/lsp"
	"github.com/belljar/belljar/internal/local"
)

// ServeEditor speaks the Language Server Protocol over a pair of streams until its input ends.
func (h *Host) ServeEditor(ctx context.Context, e local.Editor) error {
	folder, err := h.editorFolder()
	if err != nil {
		return err
	}
	open := func(context.Context) (belljar.Service, func() error, error) {
		engine, err := e.Open()
		if err != nil {
			return nil, nil, err
		}
		return engine.Service, engine.Close, nil
	}
	err = lsp.Serve(ctx, lsp.Options{Version: h.Version, Open: open, OnRetry: e.OnRetry, URL: e.URL, Config: folder}, e.In, e.Out)
	switch {
	case errors.Is(err, lsp.ErrNoShutdown):
		return local.ErrNoShutdown
	case errors.Is(err, context.Canceled):
		return nil
	}
	return err
}

// editorFolder returns the folder for the settings of editors' folders.
func (h *Host) editorFolder() (string, error) {
	if base, _ := h.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "belljar", "ide"), nil
	}
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if home, _ := h.Getenv(name); filepath.IsAbs(home) {
			return filepath.Join(home, ".config", "belljar", "ide"), nil
		}
	}
	return "", mistake("set HOME", "no folder for settings: neither XDG_CONFIG_HOME nor HOME is set")
}
