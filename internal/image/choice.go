package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

// mostLooks is how many manifests and configs are looked at to find the image for a platform.
const mostLooks = 24

// chooser finds the image for a platform in lists, and lists in lists.
type chooser struct {
	want     platform
	what     string                                  // who asks calls it so, for errors
	manifest func(id string) ([]byte, string, error) // by a digest or tag: it and its type
	config   func(d descriptor) ([]byte, error)
	looks    int
}

// chosen is an image's manifest and how it was come by.
type chosen struct {
	*manifest
	digest string
	lists  []string // digests, outermost first
}

// at follows what id stands for to the image. size is what its list says of it, -1 for nothing; lists have led to it.
func (c *chooser) at(id string, size int64, lists []string) (chosen, error) {
	if err := c.look(); err != nil {
		return chosen{}, err
	}
	data, kind, err := c.manifest(id)
	if err != nil {
		return chosen{}, err
	}
	if size >= 0 && int64(len(data)) != size {
		return chosen{}, fault("manifest", "its manifest %s has %d bytes, but its list declares %d", id, len(data), size)
	}
	m, err := parseManifest(data, kind)
	if err != nil {
		return chosen{}, err
	}
	digest := digestOf(data)
	if !m.list {
		return chosen{m, digest, lists}, nil
	}
	if len(lists) == mostLists {
		return chosen{}, fault("manifest", "it has lists in lists in lists")
	}
	return c.among(m, append(slices.Clip(lists), digest))
}

func (c *chooser) look() error {
	if c.looks++; c.looks > mostLooks {
		return fault("manifest", "its lists do not tell which image is for %s, and have too many to look at all", c.want)
	}
	return nil
}

// among finds the image in a list. Where the list does not say what its images are for, they do; the first that fits is it.
func (c *chooser) among(list *manifest, lists []string) (chosen, error) {
	candidates, there := list.candidates(c.want)
	if len(candidates) == 1 {
		return c.at(candidates[0].Digest, candidates[0].Size, lists)
	}
	var first error
	for _, d := range candidates {
		found, err := c.at(d.Digest, d.Size, lists)
		if err == nil {
			var is platform
			if is, err = c.platform(found); err == nil && c.want.rank(is) > 0 {
				return found, nil
			} else if err == nil {
				err = otherPlatform(c.what, c.want, []string{printable(is.String())})
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
		case belljar.CodeOf(err) == belljar.CodeImageInvalid && c.looks <= mostLooks: // something else that is in the list
			if first == nil {
				first = err
			}
		default:
			return chosen{}, err
		}
	}
	if first != nil && len(there) == 0 {
		return chosen{}, first
	}
	return chosen{}, otherPlatform(c.what, c.want, there)
}

// platform is what an image's config says that it is for.
func (c *chooser) platform(found chosen) (platform, error) {
	if err := c.look(); err != nil {
		return platform{}, err
	}
	data, err := c.config(found.Config)
	if err != nil {
		return platform{}, err
	}
	var says config
	if err := json.Unmarshal(data, &says); err != nil {
		return platform{}, fault("config", "its config is not JSON of the right form: %s", printable(err.Error()))
	}
	return says.platform(c.want), nil
}

// candidates are the images of a list that may be for a platform: the one that runs best of those that say so, or else all
// that say nothing, in their order. there are the platforms that the others are for.
func (m *manifest) candidates(want platform) (list []descriptor, there []string) {
	rank := 0
	var unsaid []descriptor
	for _, d := range m.Manifests {
		if d.Platform == nil || d.Platform.OS == "" && d.Platform.Architecture == "" {
			if d.Annotations[attestation] == "" {
				unsaid = append(unsaid, d)
			}
			continue
		}
		if n := want.rank(d.Platform.platform()); n > rank {
			list, rank = []descriptor{d}, n
		}
		if name := printable(d.Platform.platform().String()); d.Platform.OS != "unknown" && !slices.Contains(there, name) {
			there = append(there, name)
		}
	}
	if rank == 0 {
		list = unsaid
	}
	return list, there
}

// attestation is the annotation of what a list has about one of its images, and is none.
const attestation = "vnd.docker.reference.type"

func otherPlatform(what string, want platform, there []string) error {
	slices.Sort(there)
	if len(there) > someNames {
		there = there[:someNames]
	}
	hint := "it has none for any platform"
	if len(there) > 0 {
		hint = "there are images for " + strings.Join(there, ", ")
	}
	return &belljar.Error{
		Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("image %q is not to be had for %s", what, want),
		Details: map[string]any{"image": what, "platform": want.String(), "available": there}, Hint: hint,
	}
}
