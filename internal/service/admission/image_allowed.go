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

// What becomes of a request for an image that is not here, as [Policy.ImagePull] states.
const (
	PullMissing = "missing" // it is fetched while the sandbox is made
	PullNever   = "never"   // only operators fetch images
)

// MayUse refuses an image that the policy does not allow. What counts is the name that was asked for, not what it stands
// for here. A digest is allowed, alone or with a name, if the image has a name here that is.
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

// someAllowed is how many patterns a refusal names.
const someAllowed = 8

// allowsDigest reports whether the policy allows an image by its digest: because of what it is called here. The tag that a
// reference may have besides is only the caller's claim.
func (r *Rules) allowsDigest(ctx context.Context, ref string) bool {
	return slices.ContainsFunc(r.namesOf(ctx, ref), r.Policy.AllowsImage)
}

// namesOf returns what an image is called here that is named by its digest, none for one that is not here.
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

// AllowsImage reports whether a policy allows the name of an image.
func (p Policy) AllowsImage(ref string) bool {
	return len(p.AllowedImages) == 0 || slices.ContainsFunc(p.AllowedImages, func(pattern string) bool { return pattern == ref || standsFor(pattern, ref) })
}

// standsFor reports whether a pattern of [Policy.AllowedImages] stands for an image. Both are completed as Docker does. A
// pattern that says no tag is that of latest, or if the end of its name is open, of every tag. A digest is what its
// repository has under any tag, whatever tag stands next to it, so the pattern must be one of every tag, or have that digest.
func standsFor(pattern, ref string) bool {
	if pattern == runtime.HostRef || ref == runtime.HostRef || ref == "" {
		return false // it is itself only
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
		return tag == "*" || tag == "**" // whatever it is, it has a tag that is allowed
	}
	ok, err := doublestar.Match(tag, r.Tag)
	return err == nil && ok
}

// mayBe reports whether an image is one that a pattern stands for, or may be, for rules that a digest must not lead around. names is what
// an image is called here that is named by its digest. Without a tag here it may have any of its repository, or of any if it says none.
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

// splitPattern completes a pattern and takes its tag off.
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

// Fetchable reports, by an error, why an image that is not here is not fetched for a request.
func (r *Rules) Fetchable(ref string) error {
	parsed, err := reference.Parse(ref)
	if err != nil {
		return err
	}
	if r.Policy.ImagePull == PullNever {
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "images are fetched by operators only",
			Details: map[string]any{"image": ref, "rule": "SANDBOX_IMAGE_PULL"}, Hint: "an operator can fetch it: belljar image pull",
		}
	}
	if parsed.Repository == "" {
		return &belljar.Error{
			Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("image %q is in no registry", ref), Details: map[string]any{"image": ref},
		}
	}
	return nil
}
