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
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/runtime"
)

const volumePrefix = "belljar-agent-"

// agent reads the program for an architecture.
func (r *Runtime) agent(arch string) ([]byte, error) {
	program, err := r.opts.Agent(arch)
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

// agentVolume is the name of the volume with the agent on the engine. It is made if it is not there, and then filled
// from a container of img that is never started: an engine elsewhere has no paths of ours. A volume that is there was
// filled too, unless whoever made it was killed in between: then no agent starts from it, and again fills it anew.
func (r *Runtime) agentVolume(ctx context.Context, arch string, img image, again bool) (string, error) {
	r.volume.Lock()
	defer r.volume.Unlock()
	r.mu.Lock()
	for name, is := range r.volumes {
		if is && strings.HasSuffix(name, "-"+arch) && !again {
			r.mu.Unlock()
			return name, nil
		}
	}
	r.mu.Unlock()
	program, err := r.agent(arch)
	if err != nil {
		return "", &runtime.StepError{Step: stepAgent, Err: err}
	}
	sum := sha256.Sum256(program)
	digest := hex.EncodeToString(sum[:])
	name := volumePrefix + digest[:16] + "-" + arch
	_, err = r.api.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	if err == nil && !again {
		r.keepVolume(name)
		return name, nil
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return "", fault(stepAgent, err)
	}
	labels := map[string]string{labelAgent: digest}
	if _, err := r.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: labels}); err != nil {
		return "", fault(stepAgent, fmt.Errorf("make a volume for the agent: %w", err))
	}
	if err := r.fill(ctx, name, img, program); err != nil {
		return "", fault(stepAgent, fmt.Errorf("put the agent on the engine: %w", err))
	}
	r.keepVolume(name)
	r.prune(ctx, name)
	return name, nil
}

func (r *Runtime) keepVolume(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.volumes[name] = true
}

// fill writes the agent into a volume. The program appears under its name in one step, as a second name of a file that is
// complete: who starts a sandbox meanwhile finds all of it or nothing.
func (r *Runtime) fill(ctx context.Context, volume string, img image, program []byte) error {
	made, err := r.api.ContainerCreate(ctx, client.ContainerCreateOptions{
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
	defer r.removeQuietly(ctx, made.ID)
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
	_, err = r.api.CopyToContainer(ctx, made.ID, client.CopyToContainerOptions{DestinationPath: agentDir, Content: &text})
	return err
}

// prune removes the volumes of other agents that no container uses: those of versions that are gone.
func (r *Runtime) prune(ctx context.Context, keep string) {
	got, err := r.api.VolumeList(ctx, client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelAgent).Add("dangling", "true")})
	if err != nil {
		r.log.Warn("agents of other versions are left on the docker engine", "error", err)
		return
	}
	for _, v := range got.Items {
		made, err := time.Parse(time.RFC3339, v.CreatedAt)
		if v.Name == keep || !strings.HasPrefix(v.Name, volumePrefix) || err != nil || time.Since(made) < volumeAge {
			continue
		}
		if _, err := r.api.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{}); err != nil {
			r.log.Warn("an agent of another version is left on the docker engine", "volume", v.Name, "error", err)
		}
	}
}

// volumeAge is how old a volume must be to be removed: one that is younger may be about to be used.
const volumeAge = 24 * time.Hour

// removeQuietly removes a container that was never ours to keep.
func (r *Runtime) removeQuietly(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.Patience)
	defer cancel()
	_, err := r.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		r.log.Warn("a container is left on the docker engine", "container", id, "error", err)
	}
}

// sweepFills removes containers that were to fill a volume, of somebody who was killed meanwhile.
func (r *Runtime) sweepFills(ctx context.Context) error {
	got, err := r.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelAgent)})
	if err != nil {
		return fault(stepEngine, err)
	}
	var errs []error
	for _, item := range got.Items {
		if time.Since(time.Unix(item.Created, 0)) > halfMade {
			errs = append(errs, r.destroy(ctx, item.ID))
		}
	}
	return errors.Join(errs...)
}
