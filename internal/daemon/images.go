package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/service"
)

// openImages opens the images in a data folder. Several processes may have them open: a server's are those of the commands
// that need none, too. minFree is the free space on the disk, in bytes, below which runs do not begin: images stop at half as
// much again, so that nobody can stop runs by pulling.
func openImages(data string, cfg *config.Config, minFree uint64, log *slog.Logger) (*image.Store, error) {
	// Its other folders are for its owner's eyes only.
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

// openOwnImages opens the images of commands that need no server: where a server's are, unless it was given another place.
func openOwnImages(h *Host, cfg *config.Config) (*image.Store, error) {
	data, err := ownData(h, cfg)
	if err != nil {
		return nil, err
	}
	return openImages(data, cfg, 0, nil)
}

// ownData is the data folder of commands that need no server.
func ownData(h *Host, cfg *config.Config) (string, error) {
	if cfg.Data != "" {
		return cfg.Data, nil
	}
	return defaultData(h)
}

// Images opens the images of this machine.
func (h *Host) Images() (local.Images, error) {
	cfg, err := config.Load(config.Sources{Env: h.Env})
	if err != nil {
		return nil, err
	}
	store, err := openOwnImages(h, &cfg)
	if err != nil {
		return nil, err
	}
	return ownImages{store}, nil
}

// ownImages are the images here. Whoever sits here may do with them what he likes.
type ownImages struct{ *image.Store }

var _ local.Images = ownImages{}

// Pull fetches an image. An empty name, which is host in a run, is here a variable of the caller's that was not set.
func (o ownImages) Pull(ctx context.Context, p belljar.ImagePull, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	if p.Ref == "" {
		return belljar.Image{}, mistake("such as python:3.11-slim", "an empty name names no image")
	}
	if p.Runtime != "" {
		return belljar.Image{}, mistake("ask a server that has it, with --server", "runtime %s is asked by a server only", p.Runtime)
	}
	return o.Store.Pull(ctx, p.Ref, p.Always, progress)
}

// applyImages makes the configuration's rules about images those of a policy.
func applyImages(p *service.Policy, cfg *config.Config) {
	p.AllowedImages, p.ImagePull, p.ImageAliases = cfg.AllowedImages, cfg.ImagePull, cfg.ImageAliases
}
