package docker

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// leastDigits is how many digits a digest without a name has at least, as in other names of images.
const leastDigits = 12

// Image implements [runtime.Imager].
func (i *images) Image(ctx context.Context, ref string) (runtime.Root, error) {
	got, err := i.engine.api().ImageInspect(ctx, ref)
	switch {
	case cerrdefs.IsNotFound(err), cerrdefs.IsInvalidArgument(err):
		return runtime.Root{}, fmt.Errorf("%w: %s", runtime.ErrNoImage, ref)
	case err != nil:
		return runtime.Root{}, fault(stepImage, err)
	case !named(ref, got):
		return runtime.Root{}, fmt.Errorf("%w: %s", runtime.ErrNoImage, ref)
	}
	root := runtime.Root{Ref: ref, Name: got.ID, Digest: cmp.Or(digestOf(ref, got.RepoDigests), got.ID)}
	if got.Config != nil {
		root.Env = got.Config.Env
	}
	return root, nil
}

// named reports whether an image that the engine found has that name or is named by a digest. An engine also finds the beginning of an id
// and a copy that Belljar imported, but rules about images do not know these as names of the image.
func named(ref string, got client.ImageInspectResult) bool {
	if got.Config != nil && slices.Contains(got.RepoTags, imported(got.Config.Labels[labelImage])+":latest") {
		return false
	}
	if digits, ok := strings.CutPrefix(ref, "sha256:"); ok {
		return len(digits) >= leastDigits && strings.Trim(digits, "0123456789abcdef") == ""
	}
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return false
	}
	_, pinned := parsed.(name.Digest)
	return pinned || slices.ContainsFunc(got.RepoTags, func(tag string) bool {
		has, err := name.ParseReference(tag)
		return err == nil && has.Name() == parsed.Name()
	})
}

// digestOf returns the digest of an image's manifest; if there are several, the one of ref's repository. An image that was
// built or loaded on the engine has none. Its id is used instead, which is also a digest and a name that the engine
// accepts.
func digestOf(ref string, digests []string) string {
	repository := func(s string) string {
		parsed, err := name.ParseReference(s)
		if err != nil {
			return ""
		}
		return parsed.Context().Name()
	}
	want := repository(ref)
	for _, d := range digests {
		if _, digest, ok := strings.Cut(d, "@"); ok && want != "" && repository(d) == want {
			return digest
		}
	}
	if len(digests) > 0 {
		_, digest, _ := strings.Cut(digests[0], "@")
		return digest
	}
	return ""
}

// Pull implements [runtime.Imager].
func (i *images) Pull(ctx context.Context, ref string, progress func(belljar.ImageProgress)) (runtime.Root, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return runtime.Root{}, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%q is not the name of an image", ref), Err: err}
	}
	auth, err := i.credentials(ctx, parsed)
	if err != nil {
		return runtime.Root{}, unavailable(ref, fmt.Errorf("credentials: %w", err))
	}
	if progress != nil {
		progress(belljar.ImageProgress{Phase: belljar.ImageResolving})
	}
	stream, err := i.engine.api().ImagePull(ctx, parsed.Name(), client.ImagePullOptions{RegistryAuth: auth})
	if err == nil {
		_, err = progressed(stream, progress)
		err = errors.Join(err, stream.Close())
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return runtime.Root{}, context.Cause(ctx)
	case err != nil && unreachable(err):
		return runtime.Root{}, fault(stepEngine, err)
	case err != nil:
		return runtime.Root{}, unavailable(ref, err)
	}
	root, err := i.Image(ctx, parsed.Name())
	root.Ref = ref
	if err == nil && progress != nil {
		progress(belljar.ImageProgress{Phase: belljar.ImageDone})
	}
	return root, err
}

// credentials returns the credentials for a registry in the engine's format; "" for none.
func (i *images) credentials(ctx context.Context, ref name.Reference) (string, error) {
	found, err := authn.Resolve(ctx, i.engine.opts.Keychain, ref.Context())
	if err != nil || found == authn.Anonymous {
		return "", err
	}
	c, err := found.Authorization()
	if err != nil {
		return "", err
	}
	if *c == (authn.AuthConfig{}) {
		return "", nil
	}
	text, err := json.Marshal(registry.AuthConfig{
		Username: c.Username, Password: c.Password, Auth: c.Auth, IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken,
		ServerAddress: ref.Context().RegistryStr(),
	})
	return base64.URLEncoding.EncodeToString(text), err
}

// unavailable is the error of an image that the engine could not get.
func unavailable(ref string, err error) error {
	e := &belljar.Error{
		Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("the engine could not pull %s", ref), Err: err,
		Details: map[string]any{"image": ref, "runtime": Name}, Hint: "check the name, and whether the registry requires credentials (docker login)",
	}
	if strings.Contains(err.Error(), "no space left on device") {
		e.Code, e.Hint = belljar.CodeDiskFull, "free space where the engine keeps its data (docker system df)"
	}
	return e
}

// progressed reads an engine's report of a pull or import, and returns its last status. The stream contains failures too.
func progressed(r io.Reader, report func(belljar.ImageProgress)) (last string, err error) {
	in := json.NewDecoder(r)
	for {
		var m jsonstream.Message
		if err := in.Decode(&m); errors.Is(err, io.EOF) {
			return last, nil
		} else if err != nil {
			return last, err
		}
		if m.Error != nil {
			return last, errors.New(m.Error.Message)
		}
		if last = m.Status; report == nil || m.ID == "" {
			continue
		}
		p := belljar.ImageProgress{Layer: m.ID}
		switch m.Status {
		case "Downloading", "Download complete":
			p.Phase = belljar.ImagePulling
		case "Extracting", "Pull complete":
			p.Phase = belljar.ImageUnpacking
		case "Already exists":
			p.Phase, p.Shared = belljar.ImagePulling, true
		default:
			continue
		}
		if m.Progress != nil {
			p.Done, p.Total = m.Progress.Current, max(m.Progress.Total, 0)
		}
		report(p)
	}
}

// Images implements [runtime.Imager]. It leaves out the images that Belljar has imported.
func (i *images) Images(ctx context.Context) ([]belljar.Image, error) {
	got, err := i.engine.api().ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, fault(stepImage, err)
	}
	list := make([]belljar.Image, 0, len(got.Items))
	for _, item := range got.Items {
		if item.Labels[labelImage] != "" {
			continue
		}
		none := func(s string) bool { return strings.Contains(s, "<none>") }
		names := slices.DeleteFunc(slices.Clone(item.RepoTags), none)
		digests := slices.DeleteFunc(slices.Clone(item.RepoDigests), none)
		if len(names) == 0 && len(digests) == 0 {
			continue // a layer of another image, or an old version whose name moved to a newer one
		}
		img := belljar.Image{
			Names: append(names, digests...), Runtime: Name, Source: "engine", Bytes: item.Size,
			Config: belljar.ImageConfig{Labels: item.Labels}, CreatedAt: time.Unix(item.Created, 0).UTC(), InUse: item.Containers > 0,
		}
		img.Ref = img.Names[0]
		img.Digest = cmp.Or(digestOf(img.Ref, digests), item.ID)
		list = append(list, img)
	}
	slices.SortFunc(list, func(a, b belljar.Image) int { return strings.Compare(a.Ref, b.Ref) })
	return list, nil
}
