package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/reference"
)

// mostLooks limits the manifests and configs that are read to find the image for a platform.
const mostLooks = 24

// Chooser finds the image for a platform in lists and in nested lists.
type Chooser struct {
	Want     Platform
	Name     string                                  // the caller's name of the image, for errors
	Manifest func(id string) ([]byte, string, error) // returns the manifest of a digest or tag, and its media type
	Config   func(d Descriptor) ([]byte, error)
	looks    int
}

// Chosen is an image's manifest and its origin.
type Chosen struct {
	*Manifest
	Digest string
	Lists  []string // digests, outermost first
}

// Resolve resolves id, following lists, to an image. size is the size that its list states, -1 for none; lists are the lists that
// led to it.
func (c *Chooser) Resolve(id string, size int64, lists []string) (Chosen, error) {
	if err := c.look(); err != nil {
		return Chosen{}, err
	}
	data, kind, err := c.Manifest(id)
	if err != nil {
		return Chosen{}, err
	}
	if size >= 0 && int64(len(data)) != size {
		return Chosen{}, fault.Invalid("manifest", "its manifest %s has %d bytes, but its list declares %d", id, len(data), size)
	}
	m, err := Parse(data, kind)
	if err != nil {
		return Chosen{}, err
	}
	digest := reference.DigestOf(data)
	if !m.List {
		return Chosen{m, digest, lists}, nil
	}
	if len(lists) == mostLists {
		return Chosen{}, fault.Invalid("manifest", "it has lists in lists in lists")
	}
	return c.ChooseFrom(m, append(slices.Clip(lists), digest))
}

func (c *Chooser) look() error {
	if c.looks++; c.looks > mostLooks {
		return fault.Invalid("manifest", "its lists do not state which image is for %s, and have too many to inspect", c.Want)
	}
	return nil
}

// ChooseFrom finds the image in a list. If the list states no platforms, the images' configs do; the first that fits is chosen.
func (c *Chooser) ChooseFrom(list *Manifest, lists []string) (Chosen, error) {
	candidates, there := list.candidates(c.Want)
	if len(candidates) == 1 {
		return c.Resolve(candidates[0].Digest, candidates[0].Size, lists)
	}
	var first error
	for _, d := range candidates {
		found, err := c.Resolve(d.Digest, d.Size, lists)
		if err == nil {
			var is Platform
			if is, err = c.platform(found); err == nil && c.Want.rank(is) > 0 {
				return found, nil
			} else if err == nil {
				err = WrongPlatform(c.Name, c.Want, []string{fault.Printable(is.String())})
			}
		}
		var e *belljar.Error
		switch {
		case errors.As(err, &e) && e.Details["platform"] != nil:
			for _, p := range e.Details["available"].([]string) {
				if !slices.Contains(there, p) {
					there = append(there, p)
				}
			}
		case belljar.CodeOf(err) == belljar.CodeImageInvalid && c.looks <= mostLooks: // an entry of another kind in the list
			if first == nil {
				first = err
			}
		default:
			return Chosen{}, err
		}
	}
	if first != nil && len(there) == 0 {
		return Chosen{}, first
	}
	return Chosen{}, WrongPlatform(c.Name, c.Want, there)
}

// platform returns the platform in an image's config.
func (c *Chooser) platform(found Chosen) (Platform, error) {
	if err := c.look(); err != nil {
		return Platform{}, err
	}
	data, err := c.Config(found.Config)
	if err != nil {
		return Platform{}, err
	}
	var says Config
	if err := decode(data, &says); err != nil {
		return Platform{}, fault.Invalid("config", "its config is not JSON of the right form: %s", fault.Printable(err.Error()))
	}
	return says.platform(c.Want), nil
}

// candidates returns the images of a list that may be for a platform: the one that runs best of those that name a platform, or else
// all that name none, in their order. there are the platforms that the list names.
func (m *Manifest) candidates(want Platform) (list []Descriptor, there []string) {
	rank := 0
	var unstated []Descriptor
	for _, d := range m.Manifests {
		if d.Platform == nil || d.Platform.OS == "" && d.Platform.Architecture == "" {
			if d.Annotations[attestation] == "" {
				unstated = append(unstated, d)
			}
			continue
		}
		if n := want.rank(d.Platform.platform()); n > rank {
			list, rank = []Descriptor{d}, n
		}
		if name := fault.Printable(d.Platform.platform().String()); d.Platform.OS != "unknown" && !slices.Contains(there, name) {
			there = append(there, name)
		}
	}
	if rank == 0 {
		list = unstated
	}
	return list, there
}

// Runs returns the platform that an image is for; an error if want cannot run it.
func (c *Config) Runs(what string, want Platform) (Platform, error) {
	is := c.platform(want)
	if want.rank(is) == 0 {
		return is, WrongPlatform(what, want, []string{fault.Printable(is.String())})
	}
	return is, nil
}

// attestation is the annotation of entries in a list that describe an image and are not images.
const attestation = "vnd.docker.reference.type"

// WrongPlatform is the error of an image that is not for the platform want; there are the platforms that it is for.
func WrongPlatform(what string, want Platform, there []string) error {
	slices.Sort(there)
	if len(there) > fault.ListedNames {
		there = there[:fault.ListedNames]
	}
	hint := "it has none for any platform"
	if len(there) > 0 {
		hint = "there are images for " + strings.Join(there, ", ")
	}
	return &belljar.Error{
		Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("image %q is not available for %s", what, want),
		Details: map[string]any{"image": what, "platform": want.String(), "available": there}, Hint: hint,
	}
}
