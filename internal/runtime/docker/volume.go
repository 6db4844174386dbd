package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/runtime"
)

const volumePrefix = "belljar-agent-"

// volumes manages the volumes with the agent's program on the engine, one for each architecture and version.
type volumes struct {
	*engine
	filling chan struct{} // holds a token while a volume is searched for or filled

	mu     sync.Mutex
	filled map[string]bool // volumes that have an agent, by name
}

// agent reads the program for an architecture.
func (vs *volumes) agent(arch string) ([]byte, error) {
	program, err := vs.opts.Agent(arch)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	text, err := io.ReadAll(program)
	if err == nil && len(text) == 0 {
		err = errors.New("the agent is empty")
	}
	return text, err
}

// ensure returns the name of the volume with the agent on the engine. It makes a missing volume, and fills it from a
// container of img that is never started, because an engine elsewhere has none of our paths. An existing volume counts as
// filled. If its maker was killed before that, no agent starts from it; again then fills it once more.
func (vs *volumes) ensure(ctx context.Context, arch string, img image, again bool) (string, error) {
	select {
	case vs.filling <- struct{}{}:
		defer func() { <-vs.filling }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	vs.mu.Lock()
	for name, is := range vs.filled {
		if is && strings.HasSuffix(name, "-"+arch) && !again {
			vs.mu.Unlock()
			return name, nil
		}
	}
	vs.mu.Unlock()
	program, err := vs.agent(arch)
	if err != nil {
		return "", &runtime.StepError{Step: stepAgent, Err: err}
	}
	sum := sha256.Sum256(program)
	digest := hex.EncodeToString(sum[:])
	name := volumePrefix + digest[:16] + "-" + arch
	_, err = vs.api().VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	if err == nil && !again {
		vs.keep(name)
		return name, nil
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return "", fault(stepAgent, err)
	}
	labels := map[string]string{labelAgent: digest}
	if _, err := vs.api().VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: labels}); err != nil {
		return "", fault(stepAgent, fmt.Errorf("make a volume for the agent: %w", err))
	}
	if err := vs.fill(ctx, name, img, program); err != nil {
		return "", fault(stepAgent, fmt.Errorf("put the agent on the engine: %w", err))
	}
	vs.keep(name)
	vs.prune(ctx, name)
	return name, nil
}

func (vs *volumes) keep(name string) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	vs.filled[name] = true
}

// fill writes the agent into a volume. The program gets its final name in one step, as a hard link to a complete file, so
// a sandbox that starts meanwhile finds all of it or nothing.
func (vs *volumes) fill(ctx context.Context, volume string, img image, program []byte) error {
	made, err := vs.api().ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: "belljar-fill-" + rand.Text()[:12],
		Config: &container.Config{
			Image: img.id, Entrypoint: []string{path.Join(agentDir, agentName)}, NetworkDisabled: true,
			Labels: map[string]string{labelAgent: volume},
		},
		HostConfig: &container.HostConfig{
			NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"},
			Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: volume, Target: agentDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}},
		},
	})
	if err != nil {
		return err
	}
	defer vs.removeQuietly(ctx, made.ID)
	// If the volume is complete, it is not at fault: the image hides it. Each further copy would stay on the engine, too.
	there, err := vs.api().ContainerStatPath(ctx, made.ID, client.ContainerStatPathOptions{Path: path.Join(agentDir, agentName)})
	if err == nil && there.Stat.Mode.IsRegular() && there.Stat.Size == int64(len(program)) {
		return nil
	}
	var text bytes.Buffer
	tw := tar.NewWriter(&text)
	temporary := agentName + "." + rand.Text()[:8]
	h := &tar.Header{Typeflag: tar.TypeReg, Name: temporary, Mode: 0o555, Size: int64(len(program)), ModTime: time.Unix(0, 0)}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if _, err := tw.Write(program); err != nil {
		return err
	}
	h = &tar.Header{Typeflag: tar.TypeLink, Name: agentName, Linkname: temporary, Mode: 0o555, ModTime: time.Unix(0, 0)}
	if err := errors.Join(tw.WriteHeader(h), tw.Close()); err != nil {
		return err
	}
	_, err = vs.api().CopyToContainer(ctx, made.ID, client.CopyToContainerOptions{DestinationPath: agentDir, Content: &text})
	return err
}

// prune removes the volumes of other agent versions that no container uses.
func (vs *volumes) prune(ctx context.Context, keep string) {
	got, err := vs.api().VolumeList(ctx, client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelAgent).Add("dangling", "true")})
	if err != nil {
		vs.log.Warn("agents of other versions are left on the docker engine", "error", err)
		return
	}
	for _, v := range got.Items {
		made, err := time.Parse(time.RFC3339, v.CreatedAt)
		if v.Name == keep || !strings.HasPrefix(v.Name, volumePrefix) || err != nil || time.Since(made) < volumeAge {
			continue
		}
		if _, err := vs.api().VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{}); err != nil {
			vs.log.Warn("an agent of another version is left on the docker engine", "volume", v.Name, "error", err)
		}
	}
}

// volumeAge is the age at which a volume can be removed. A younger one may be about to be used.
const volumeAge = 24 * time.Hour

// sweepFills removes containers that were made to fill a volume and whose maker was killed.
func (vs *volumes) sweepFills(ctx context.Context) error {
	got, err := vs.api().ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelAgent)})
	if err != nil {
		return fault(stepEngine, err)
	}
	var errs []error
	for _, item := range got.Items {
		// Fill containers are never started. A container that was started has its image's labels, which can have any
		// value.
		if item.State == container.StateCreated && time.Since(time.Unix(item.Created, 0)) > halfMade {
			errs = append(errs, vs.destroy(ctx, item.ID))
		}
	}
	return errors.Join(errs...)
}
