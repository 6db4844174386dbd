package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/runtime"
)

// The treatment of a request for an image that is not local: the values of [Policy.ImagePull].
const (
	PullMissing = "missing" // it is pulled while the sandbox is made
	PullNever   = "never"   // only operators pull images
)

// MayUse refuses an image that the policy does not permit. It checks the requested name, not the image that the name resolves to. A
// digest, alone or with a name, is permitted if the local image has a permitted name.
func (r *Rules) MayUse(ctx context.Context, ref string) error {
	if r.Policy.AllowsImage(ref) || r.allowsDigest(ctx, ref) {
		return nil
	}
	allowed := r.Policy.AllowedImages
	e := &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("image %q is not among those allowed here", ref),
		Details: map[string]any{"field": "base_image", "provided": ref, "supported": allowed, "rule": "SANDBOX_ALLOWED_IMAGES"},
		Hint:    "allowed are " + strings.Join(allowed[:min(len(allowed), someAllowed)], ", "),
	}
	if len(allowed) > someAllowed {
		e.Hint += fmt.Sprintf(" and %d more", len(allowed)-someAllowed)
	}
	if name, _, pinned := strings.Cut(ref, "@"); pinned && r.Policy.AllowsImage(name) {
		e.Hint = name + " is allowed: leave the digest out, or pull it first, and if it has that digest then, it is allowed with it"
	}
	return e
}

// someAllowed is how many patterns a refusal lists.
const someAllowed = 8

// allowsDigest reports whether the policy permits an image by its digest, because of its local names. A tag in the reference does not
// count: it is only the caller's claim.
func (r *Rules) allowsDigest(ctx context.Context, ref string) bool {
	return slices.ContainsFunc(r.namesOf(ctx, ref), r.Policy.AllowsImage)
}

// namesOf returns the local names of an image by its digest, none for an image that is not local.
func (r *Rules) namesOf(ctx context.Context, ref string) []string {
	parsed, err := reference.Parse(ref)
	if err != nil || parsed.Digest == "" {
		return nil
	}
	here, err := r.Images.Get(ctx, ref)
	if err != nil {
		return nil
	}
	return here.Names
}

// AllowsImage reports whether a policy permits the name of an image.
func (p Policy) AllowsImage(ref string) bool {
	return len(p.AllowedImages) == 0 || slices.ContainsFunc(p.AllowedImages, func(pattern string) bool { return pattern == ref || standsFor(pattern, ref) })
}

// standsFor reports whether a pattern of [Policy.AllowedImages] matches an image. Both are completed as Docker does. A pattern without a
// tag matches latest or, if the end of its name is open, every tag. A digest may be under any tag of its repository, whatever tag the
// reference has, so the pattern must match every tag, or have that digest.
func standsFor(pattern, ref string) bool {
	if pattern == runtime.HostRef || ref == runtime.HostRef || ref == "" {
		return false // it matches only itself
	}
	r, err := reference.Parse(ref)
	if err != nil || r.Repository == "" {
		return false
	}
	pattern, digest, pinned := strings.Cut(pattern, "@")
	if pinned && digest != r.Digest {
		return false
	}
	repository, tag := splitPattern(pattern)
	if ok, err := doublestar.Match(repository, r.Repository); err != nil || !ok {
		return false
	}
	switch {
	case pinned:
		return true
	case r.Digest != "":
		return tag == "*" || tag == "**" // whichever tag it has is permitted
	}
	ok, err := doublestar.Match(tag, r.Tag)
	return err == nil && ok
}

// mayBe reports whether a pattern matches an image, or might, for rules that a digest must not bypass. names are the local names of an
// image that is named by its digest. Without a local tag it might have any tag, of its repository or, if it names none, of any repository.
func mayBe(pattern, ref string, names []string) bool {
	all := slices.Concat([]string{ref}, names)
	if slices.ContainsFunc(all, func(name string) bool { return pattern == name || standsFor(pattern, name) }) {
		return true
	}
	if pattern == runtime.HostRef || strings.Contains(pattern, "sha256:") {
		return false
	}
	repository, _ := splitPattern(pattern)
	anywhere, within := true, false
	for _, name := range all {
		r, err := reference.Parse(name)
		if err != nil || r.Digest == "" {
			return false // its tag is known
		}
		if r.Repository != "" {
			ok, err := doublestar.Match(repository, r.Repository)
			anywhere, within = false, within || err == nil && ok
		}
	}
	return anywhere || within
}

// splitPattern completes a pattern and splits off its tag.
func splitPattern(pattern string) (repository, tag string) {
	if pattern == "**" {
		return pattern, pattern
	}
	repository = pattern
	last := strings.LastIndexByte(pattern, '/')
	if i := strings.LastIndexByte(pattern, ':'); i > last {
		repository, tag = pattern[:i], pattern[i+1:]
	} else if tag = "latest"; strings.HasSuffix(pattern, "*") {
		tag = "*"
	}
	first, _, several := strings.Cut(repository, "/")
	switch {
	case !several:
		repository = "docker.io/library/" + repository
	case first != "localhost" && !strings.ContainsAny(first, ".:*"):
		repository = "docker.io/" + repository
	}
	if rest, hub := strings.CutPrefix(repository, "index.docker.io/"); hub {
		repository = "docker.io/" + rest
	}
	if user, hub := strings.CutPrefix(repository, "docker.io/"); hub && !strings.Contains(user, "/") && user != "**" {
		repository = "docker.io/library/" + user
	}
	return repository, tag
}

// Fetchable returns an error if a request may not pull this image.
func (r *Rules) Fetchable(ref string) error {
	for _, alias := range r.Policy.ImageAliases {
		if name, to, _ := strings.Cut(alias, "="); name == ref {
			ref = to
			break
		}
	}
	parsed, err := reference.Parse(ref)
	if err != nil {
		return err
	}
	nowhere := parsed.Nowhere(ref)
	if r.Policy.ImagePull == PullNever && belljar.HintOf(nowhere) == "" { // a hint names another way to the image
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "images are fetched by operators only",
			Details: map[string]any{"image": ref, "rule": "SANDBOX_IMAGE_PULL"}, Hint: "an operator can fetch it: belljar image pull",
		}
	}
	return nowhere
}
