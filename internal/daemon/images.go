package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/service"
)

// openImages opens the image store in a data folder. Several processes can open it: a server and local commands share it. minFree
// is the free disk space, in bytes, that runs need to start. Images need half as much again, so that pulls alone cannot stop runs.
func openImages(data string, cfg *config.Config, minFree uint64, log *slog.Logger) (*image.Store, error) {
	// The other subfolders are private to the owner.
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, unusable(data, err)
	}
	store, err := image.Open(image.Options{
		Path: filepath.Join(data, "images"), Aliases: cfg.Aliases(), Registries: cfg.ImageRegistries,
		MaxBytes: int64(cfg.ImageMaxMB) << 20, Logger: log,
		Free: func() (uint64, error) { return freeBytes(data) }, MinFree: minFree + minFree/2,
		FreeFiles: func() (uint64, uint64, error) { return freeFiles(data) },
	})
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		err = unusable(data, err)
	}
	return store, err
}

// openLocalImages opens the image store of local commands. A server uses the same store unless it has another data folder.
func openLocalImages(h *Host, cfg *config.Config) (*image.Store, error) {
	data, err := localData(h, cfg)
	if err != nil {
		return nil, err
	}
	return openImages(data, cfg, 0, nil)
}

// localData returns the data folder of local commands.
func localData(h *Host, cfg *config.Config) (string, error) {
	if cfg.Data != "" {
		return cfg.Data, nil
	}
	return defaultData(h)
}

// Images opens the image store of this machine.
func (h *Host) Images() (local.Images, error) {
	cfg, err := config.Load(config.Sources{Env: h.Env})
	if err != nil {
		return nil, err
	}
	store, err := openLocalImages(h, &cfg)
	if err != nil {
		return nil, err
	}
	return localImages{store}, nil
}

// localImages is the image store of local commands, without any policy.
type localImages struct{ *image.Store }

var _ local.Images = localImages{}

// Pull pulls an image. It refuses an empty name, which means host in a run: here it is usually an unset shell variable.
func (o localImages) Pull(ctx context.Context, p belljar.ImagePull, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	if p.Ref == "" {
		return belljar.Image{}, mistake("such as python:3.11-slim", "an empty name names no image")
	}
	if p.Runtime != "" {
		return belljar.Image{}, mistake("ask a server that has it, with --server", "runtime %s is asked by a server only", p.Runtime)
	}
	return o.Store.Pull(ctx, p.Ref, p.Always, progress)
}

// checkImages refuses a setting that names an image for which all requests would be refused. An image with a digest may be allowed once
// it is pulled.
func checkImages(p service.Policy, cfg *config.Config) error {
	for _, c := range []struct {
		key, image string
		used       bool
	}{
		{"DEFAULT_IMAGE", cfg.DefaultImage, true},
		{"WORKSPACE_IMAGE", cfg.WorkspaceImage, cfg.WorkspaceMode == "sandbox" && cfg.SpritesBaseURL == ""},
		{"MCP_IMAGE", cfg.MCPImage, cfg.MCP},
	} {
		if _, set := cfg.Set(config.Prefix + c.key); set && c.used && !strings.Contains(c.image, "sha256:") && !p.AllowsImage(c.image) {
			return mistake("add it to SANDBOX_ALLOWED_IMAGES", "%s%s: image %q is not among SANDBOX_ALLOWED_IMAGES", config.Prefix, c.key, c.image)
		}
	}
	return nil
}

// applyImages copies the configuration's rules about images into a policy.
func applyImages(p *service.Policy, cfg *config.Config) {
	p.AllowedImages, p.ImagePull, p.ImageAliases = cfg.AllowedImages, cfg.ImagePull, cfg.ImageAliases
}
