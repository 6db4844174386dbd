package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/keylock"
	"github.com/belljar/belljar/internal/runtime"
)

// image has the properties of an engine's image that a container needs. They do not change, since an image's id is a
// digest of its content.
type image struct {
	id      string   // sha256:…
	volumes []string // folders that it declares as volumes
}

var (
	errDisk = errors.New("a workspace on disk is not available")
	errSize = errors.New("a workspace needs a size and a number of inodes")
	errHost = errors.New("an engine cannot use the host's own programs")
)

// images manages the engine's images.
type images struct {
	engine    *engine
	importing chan struct{}         // a semaphore of imports
	giving    keylock.Locks[string] // by digest: each image is imported once

	mu   sync.Mutex
	byID map[string]image // by id or digest
}

// mostImports is how many images are imported at the same time: a large one must not delay all others.
const mostImports = 4

// imported returns the name that an image that Belljar has unpacked gets on an engine.
func imported(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return "belljar/" + hex[:min(len(hex), 12)]
}

// rootOf finds the engine's image for a root. If the engine lacks an image that Belljar has unpacked, rootOf imports it.
func (i *images) rootOf(ctx context.Context, root runtime.Root, f *facts) (image, error) {
	switch {
	case root.Name != "":
		img, _, err := i.inspect(ctx, root.Name, f)
		return img, err
	case root.Dir == "":
		return image{}, &runtime.StepError{Step: stepImage, Err: errHost, Hint: "name an image (--image), or use the native runtime"}
	case root.Digest == "":
		return image{}, &runtime.StepError{Step: stepImage, Err: errors.New("an unpacked image without a digest cannot be identified on an engine")}
	}
	if img, err := i.given(ctx, root, f); !errors.Is(err, runtime.ErrNoImage) {
		return img, err
	}
	unlock, err := i.giving.Lock(ctx, root.Digest)
	if err != nil {
		return image{}, err
	}
	defer unlock()
	if img, err := i.given(ctx, root, f); !errors.Is(err, runtime.ErrNoImage) { // another caller has imported it meanwhile
		return img, err
	}
	select {
	case i.importing <- struct{}{}:
		defer func() { <-i.importing }()
	case <-ctx.Done():
		return image{}, context.Cause(ctx)
	}
	if err := i.give(ctx, root, imported(root.Digest)); err != nil {
		return image{}, err
	}
	return i.given(ctx, root, f)
}

// given finds an image that was imported into the engine. [runtime.ErrNoImage] if it is missing.
func (i *images) given(ctx context.Context, root runtime.Root, f *facts) (image, error) {
	if img, ok := i.known(root.Digest); ok {
		return img, nil
	}
	name := imported(root.Digest)
	img, labels, err := i.inspect(ctx, name, f)
	if err == nil && labels[labelImage] != root.Digest {
		err = fmt.Errorf("%w: %s is another one", runtime.ErrNoImage, name)
	}
	if err != nil {
		return image{}, err
	}
	i.mu.Lock()
	i.byID[root.Digest] = img
	i.mu.Unlock()
	return img, nil
}

// known returns the cached facts of an image, by its id or digest.
func (i *images) known(id string) (image, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	img, ok := i.byID[id]
	return img, ok
}

// forget drops the cached facts of a removed image.
func (i *images) forget(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for key, img := range i.byID {
		if img.id == id {
			delete(i.byID, key)
		}
	}
}

// inspect looks an image up by any name that the engine knows. [runtime.ErrNoImage] if it is missing.
func (i *images) inspect(ctx context.Context, name string, f *facts) (image, map[string]string, error) {
	if img, ok := i.known(name); ok {
		return img, nil, nil
	}
	got, err := i.engine.api().ImageInspect(ctx, name)
	switch {
	case cerrdefs.IsNotFound(err):
		return image{}, nil, fmt.Errorf("%w: %s", runtime.ErrNoImage, name)
	case err != nil:
		return image{}, nil, fault(stepImage, err)
	case got.Os != "" && got.Os != "linux", got.Architecture != "" && got.Architecture != f.arch():
		return image{}, nil, &runtime.StepError{
			Step: stepImage, Err: fmt.Errorf("%s is for %s/%s, the engine is linux/%s", name, got.Os, got.Architecture, f.arch()),
			Hint: "pull the image for the engine's platform",
		}
	}
	img := image{id: got.ID}
	var labels map[string]string
	if got.Config != nil {
		labels = got.Config.Labels
		for place := range got.Config.Volumes {
			img.volumes = append(img.volumes, path.Clean("/"+place))
		}
		slices.Sort(img.volumes)
	}
	i.mu.Lock()
	i.byID[got.ID] = img
	i.mu.Unlock()
	return img, labels, nil
}

// give imports an unpacked image into the engine.
func (i *images) give(ctx context.Context, root runtime.Root, name string) error {
	release, err := hold(root.Lock)
	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrNoImage, err)
	}
	defer release()
	if _, err := os.Stat(root.Dir); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", runtime.ErrNoImage, err)
	}
	pr, pw := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := writeTree(ctx, pw, root.Dir)
		pw.CloseWithError(err)
		sent <- err
	}()
	answer, err := i.engine.api().ImageImport(ctx, client.ImageImportSource{Source: pr, SourceName: "-"}, name, client.ImageImportOptions{
		Changes: []string{"LABEL " + labelImage + "=" + root.Digest},
	})
	if err == nil {
		_, err = progressed(answer, nil)
		err = errors.Join(err, answer.Close())
	}
	pr.CloseWithError(errors.New("the engine takes no more of the image"))
	wrote := <-sent
	if wrote != nil && (err == nil || ctx.Err() == nil) && !errors.Is(wrote, io.ErrClosedPipe) {
		err = errors.Join(err, wrote)
	}
	if err != nil {
		return fault(stepImage, fmt.Errorf("give image %s to the engine: %w", root.Ref, err))
	}
	return nil
}
