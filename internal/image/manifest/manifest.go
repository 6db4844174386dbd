// Package manifest reads the descriptions of an image, which are manifests, lists of them and configs, and chooses the image
// for a platform.
package manifest

import (
	"encoding/json"
	"fmt"
	"github.com/belljar/belljar/internal/char"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/reference"
	"slices"
	"strings"
	"time"
)

// The media types of manifests and lists of them.
const (
	KindIndex        = "application/vnd.oci.image.index.v1+json"
	KindManifest     = "application/vnd.oci.image.manifest.v1+json"
	KindConfig       = "application/vnd.oci.image.config.v1+json"
	KindLayer        = "application/vnd.oci.image.layer.v1.tar"
	kindDockerList   = "application/vnd.docker.distribution.manifest.list.v2+json"
	kindDocker       = "application/vnd.docker.distribution.manifest.v2+json"
	kindDockerConfig = "application/vnd.docker.container.image.v1+json"
)

// ManifestKinds are the media types of manifests and of lists of them.
func ManifestKinds() []string { return []string{KindIndex, KindManifest, kindDockerList, kindDocker} }

// Limits of an image's description.
const (
	MaxLayers     = 127
	MaxManifest   = 4 << 20  // bytes; the size that registries must accept
	MaxConfig     = 4 << 20  // bytes of the original config
	mostKept      = 16 << 10 // bytes of the parts that are kept, as JSON
	mostLabel     = 4 << 10  // bytes of a label; longer ones are left out
	mostPlatforms = 512      // images in a list
	mostValues    = 1 << 16  // JSON values, by [char.Values]
	mostLists     = 3        // nesting of lists
)

// Descriptor is a reference to a blob.
type Descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *wirePlatform     `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type wirePlatform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"`
}

func (p wirePlatform) platform() Platform {
	return Platform{OS: p.OS, Arch: p.Architecture, Variant: p.Variant}
}

// Manifest is the manifest of an image or of a list: only Manifests or Layers counts, depending on kind.
type Manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType,omitempty"`
	Config        Descriptor        `json:"config,omitzero"`
	Layers        []Descriptor      `json:"layers,omitempty"`
	Manifests     []Descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`

	List bool
}

// Parse reads the manifest of an image or of a list. declared is the media type that came with it, "" for none.
func Parse(data []byte, declared string) (*Manifest, error) {
	var fields map[string]json.RawMessage
	m := &Manifest{}
	if err := decode(data, m); err != nil {
		return nil, fault.Invalid("manifest", "the manifest is not JSON of the right form: %s", fault.Printable(err.Error()))
	}
	_ = json.Unmarshal(data, &fields) // cannot fail: data was already decoded as an object
	kind := m.MediaType
	if kind == "" {
		kind, _, _ = strings.Cut(declared, ";")
	}
	_, hasLayers := fields["layers"]
	_, hasList := fields["manifests"]
	switch {
	case m.SchemaVersion == 1:
		return nil, fault.Invalid("schema", "its manifest is of schema 1, which has no checked config; its registry or maker must convert it")
	case m.SchemaVersion != 2:
		return nil, fault.Invalid("schema", "its manifest is of schema %d, not 2", m.SchemaVersion)
	case hasLayers && hasList:
		return nil, fault.Invalid("manifest", "its manifest is an image's and a list at the same time")
	case hasList, kind == KindIndex, kind == kindDockerList:
		m.List = true
	}
	if m.List {
		return m, checkList(m, kind)
	}
	return m, checkManifest(m)
}

func checkList(m *Manifest, kind string) error {
	if kind == KindManifest || kind == kindDocker {
		return fault.Invalid("manifest", "its manifest claims to be an image's, but is a list")
	}
	if len(m.Manifests) > mostPlatforms {
		return fault.Invalid("manifest", "its list has %d images, more than %d", len(m.Manifests), mostPlatforms)
	}
	for _, d := range m.Manifests {
		if !reference.IsDigest(d.Digest) || d.Size < 0 {
			return fault.Invalid("manifest", "its list has an image without a sha256 digest and a size")
		}
	}
	return nil
}

func checkManifest(m *Manifest) error {
	switch kind := m.Config.MediaType; kind {
	case KindConfig, kindDockerConfig, "":
	case "application/octet-stream", "application/json", "text/html": // types that old registries have made of it
	default:
		return fault.Invalid("config", "it is not an image of programs: its type is %q", fault.Printable(kind))
	}
	switch {
	case m.MediaType == KindIndex || m.MediaType == kindDockerList:
		return fault.Invalid("manifest", "its manifest claims to be a list, but is an image's")
	case !reference.IsDigest(m.Config.Digest):
		return fault.Invalid("manifest", "its manifest names no config by a sha256 digest")
	case m.Config.Size < 0 || m.Config.Size > MaxConfig:
		return fault.Invalid("config", "its config has %d bytes, more than %d", m.Config.Size, MaxConfig)
	case len(m.Layers) > MaxLayers:
		return fault.Invalid("layers", "it has %d layers, more than %d", len(m.Layers), MaxLayers)
	}
	for i, l := range m.Layers {
		if err := checkLayer(l); err != nil {
			return err
		}
		if !reference.IsDigest(l.Digest) || l.Size < 0 {
			return fault.Invalid("layers", "its layer %d has no sha256 digest and size", i)
		}
	}
	return nil
}

// checkLayer refuses a layer that is not a tar, or must be fetched from elsewhere.
func checkLayer(l Descriptor) error {
	kind := l.MediaType
	switch {
	case strings.Contains(kind, "foreign"), strings.Contains(kind, "nondistributable"):
		return fault.Invalid("layer_type", "its layer %s cannot be downloaded from registries (%s)", fault.Printable(l.Digest), fault.Printable(kind))
	case strings.HasSuffix(kind, "+encrypted"):
		return fault.Invalid("layer_type", "its layer %s is encrypted", fault.Printable(l.Digest))
	}
	known := []string{"", ".tar", ".tar+gzip", ".tar+zstd", ".tar.gzip", ".tar.zstd"}
	for _, base := range []string{strings.TrimSuffix(KindLayer, ".tar"), "application/vnd.docker.image.rootfs.diff"} {
		if rest, ok := strings.CutPrefix(kind, base); ok && slices.Contains(known, rest) {
			return nil
		}
	}
	return fault.Invalid("layer_type", "its layer %s is of an unknown type (%s)", fault.Printable(l.Digest), fault.Printable(kind))
}

// decode decodes JSON unless it has too many values.
func decode(data []byte, to any) error {
	if char.Values(data) > mostValues {
		return fmt.Errorf("it has more than %d values", mostValues)
	}
	return json.Unmarshal(data, to)
}

// words is a list of strings. Old images may have one string instead.
type words []string

func (w *words) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*w = words{"/bin/sh", "-c", one}
		if one == "" {
			*w = nil
		}
		return nil
	}
	var list []string
	err := json.Unmarshal(data, &list)
	*w = list
	return err
}

// Config is an image's config in its original form.
type Config struct {
	Created      *time.Time `json:"created,omitempty"`
	Architecture string     `json:"architecture"`
	OS           string     `json:"os"`
	Variant      string     `json:"variant,omitempty"`
	Config       struct {
		User       string            `json:"User,omitempty"`
		Env        []string          `json:"Env,omitempty"`
		WorkingDir string            `json:"WorkingDir,omitempty"`
		Entrypoint words             `json:"Entrypoint,omitempty"`
		Cmd        words             `json:"Cmd,omitempty"`
		Labels     map[string]string `json:"Labels,omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// ParseConfig reads the config of an image with that many layers.
func ParseConfig(data []byte, layers int) (*Config, error) {
	if len(data) > MaxConfig {
		return nil, fault.Invalid("config", "its config has %d bytes, more than %d", len(data), MaxConfig)
	}
	c := &Config{}
	if err := decode(data, c); err != nil {
		return nil, fault.Invalid("config", "its config is not JSON of the right form: %s", fault.Printable(err.Error()))
	}
	if len(c.RootFS.DiffIDs) != layers {
		return nil, fault.Invalid("config", "its config is of %d layers, and it has %d", len(c.RootFS.DiffIDs), layers)
	}
	for _, id := range c.RootFS.DiffIDs {
		if !reference.IsDigest(id) {
			return nil, fault.Invalid("config", "its config names a layer by no sha256 digest: %s", fault.Printable(id))
		}
	}
	return c, nil
}

// platform returns the image's platform. If the config names none, it is assumed to be want.
func (c *Config) platform(want Platform) Platform {
	if c.OS == "" && c.Architecture == "" {
		return want
	}
	return Platform{OS: c.OS, Arch: c.Architecture, Variant: c.Variant}
}
