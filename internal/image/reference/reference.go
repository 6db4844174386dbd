// Package reference has the names and digests of images.
package reference

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Reference is a parsed image reference of a request.
type Reference struct {
	// Name is the complete reference: host, docker.io/library/python:3.11-slim, docker.io/library/python@sha256:…; for a
	// digest alone it is the digest.
	Name string
	// Repository is docker.io/library/python; "" for host and for a digest alone.
	Repository string
	// Tag is 3.11-slim, or latest if neither tag nor digest is given; next to a digest it has no meaning and may be "".
	Tag string
	// Digest is sha256:… and pins the image; for a digest alone it may be a prefix.
	Digest string

	remote name.Reference // nil if nothing may fetch it
}

// Limits of references.
const (
	MaxName     = 512 // bytes of a reference
	leastDigits = 12  // hexadecimal digits of a digest alone
	dockerHub   = "docker.io"
	// ours begins the names of images that Belljar makes on a machine. Docker Hub has this user for its owner, whose images must not stand
	// in for one that was removed, or never made.
	ours = dockerHub + "/belljar/"
)

// Parse parses a reference and completes it like Docker: the default registry is docker.io, the default user library and the
// default tag latest. An invalid reference is [belljar.CodeInvalidRequest].
func Parse(ref string) (Reference, error) {
	switch {
	case ref == "" || ref == runtime.HostRef:
		return Reference{Name: runtime.HostRef}, nil
	case len(ref) > MaxName:
		return Reference{}, Invalid(ref[:64]+"…", fmt.Errorf("it is longer than %d bytes", MaxName))
	case strings.HasPrefix(ref, "sha256:"):
		if digits := ref[len("sha256:"):]; !IsHex(digits) || len(digits) < leastDigits || len(digits) > 64 {
			return Reference{}, Invalid(ref, fmt.Errorf("a digest alone is sha256: and %d to 64 hexadecimal digits", leastDigits))
		}
		return Reference{Name: ref, Digest: ref}, nil
	}
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return Reference{}, Invalid(ref, reason(ref))
	}
	if context := parsed.Context(); !hostName().MatchString(context.RegistryStr()) || !repositoryName().MatchString(context.RepositoryStr()) {
		return Reference{}, Invalid(ref, fmt.Errorf("its registry or repository has an empty or odd part"))
	}
	r := Reference{remote: parsed, Repository: repository(parsed.Context())}
	switch p := parsed.(type) {
	case name.Digest:
		if !IsDigest(p.DigestStr()) {
			return Reference{}, Invalid(ref, fmt.Errorf("digests are sha256: and 64 hexadecimal digits"))
		}
		r.Digest = p.DigestStr()
		r.Name = r.Repository + "@" + r.Digest
		before, _, _ := strings.Cut(ref, "@")
		if tag, err := name.NewTag(before, name.WithDefaultTag("")); err == nil {
			r.Tag = tag.TagStr()
		}
	case name.Tag:
		if !tagName().MatchString(p.TagStr()) {
			return Reference{}, Invalid(ref, fmt.Errorf("a tag has up to 128 letters, digits and ._- and begins with none of .-"))
		}
		r.Tag = p.TagStr()
		r.Name = r.Repository + ":" + r.Tag
	}
	if strings.HasPrefix(r.Repository, ours) {
		r.remote = nil
	}
	return r, nil
}

// reason explains to a person what is wrong with an invalid reference.
func reason(ref string) error {
	before, _, _ := strings.Cut(ref, "@")
	repository := before
	if tag := strings.LastIndexByte(before, ':'); tag > strings.LastIndexByte(before, '/') {
		repository = before[:tag]
	}
	if host, rest, ok := strings.Cut(repository, "/"); ok && strings.ContainsAny(host, ".:") {
		repository = rest
	}
	switch {
	case strings.Contains(ref, "://"):
		return errors.New("it is not the address of a web page: remove the part before the registry's name")
	case strings.ContainsAny(ref, " \t\r\n"):
		return errors.New("there is a space or the end of a line in it")
	case strings.Count(ref, "@") > 1, strings.HasSuffix(ref, "@"), strings.HasSuffix(ref, ":"):
		return errors.New("it ends too early, or has two digests")
	case strings.Contains(ref, "@sha256:"):
		return errors.New("digests are sha256: and 64 hexadecimal digits, in small letters")
	case strings.ToLower(repository) != repository:
		return errors.New("names of images are in small letters; only tags may have capitals")
	}
	return errors.New("it is not made of a registry, a name and a tag or digest")
}

// The characters in the parts of a reference: no more than registries accept, so that none of them changes the path of a URL.
var (
	hostName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?$`)
	})
	repositoryName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*$`)
	})
	tagName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}$`) })
)

func repository(r name.Repository) string {
	host := r.RegistryStr()
	if host == name.DefaultRegistry {
		host = dockerHub
	}
	return path.Join(host, r.RepositoryStr())
}

// Invalid makes the error of an invalid reference.
func Invalid(ref string, err error) error {
	return &belljar.Error{
		Code:    belljar.CodeInvalidRequest,
		Message: fmt.Sprintf("%q is not an image name", ref),
		Details: map[string]any{"field": "image", "image": ref, "reason": err.Error()},
		Hint:    "write it as python:3.11-slim, registry.example/team/name:tag or name@sha256:…",
		Err:     err,
	}
}

var givenName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:/+-]*$`) })

// CheckName refuses texts that must not become a name in the store.
func CheckName(s string) error {
	var reason string
	switch {
	case s == runtime.HostRef:
		reason = "host is the machine's own /usr"
	case len(s) > MaxName:
		reason = fmt.Sprintf("a name has at most %d bytes", MaxName)
	case strings.HasPrefix(s, "sha256:"):
		reason = "a digest is not a name"
	case !givenName().MatchString(s):
		reason = "a name has letters, digits and ._:/+- and begins with a letter or digit"
	default:
		return nil
	}
	if len(s) > MaxName {
		s = s[:64] + "…"
	}
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("an image cannot be called %q", s),
		Details: map[string]any{"field": "name", "name": s, "reason": reason}, Hint: reason,
	}
}

// Remote returns the reference for a registry; nil if nothing may fetch it.
func (r Reference) Remote() name.Reference { return r.remote }

// Nowhere returns the error of an image ref that nothing may fetch; nil if a registry may have it.
func (r Reference) Nowhere(ref string) error {
	if r.remote != nil {
		return nil
	}
	e := &belljar.Error{
		Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("image %q is in no registry", ref), Details: map[string]any{"image": ref},
	}
	if name, own := strings.CutPrefix(r.Repository, ours); own {
		e.Message, e.Hint = fmt.Sprintf("image %q does not exist here and is never fetched", ref), r.command(name)
	}
	return e
}

// command returns the hint with the command that makes an image of our name.
func (r Reference) command(name string) string {
	if name == "template" {
		return "belljar template build FILE makes the image of its recipe again"
	}
	recipe, full := "RECIPE", "belljar/"+name
	if slices.Contains([]string{"shell", "python", "node", "go", "java"}, name) {
		recipe = name
	}
	if r.Tag != "" && r.Tag != "latest" {
		full += ":" + r.Tag
	}
	if full == "belljar/"+recipe {
		return "belljar image build " + recipe + " makes it"
	}
	return "belljar image build " + recipe + " --name " + full + " makes it"
}
