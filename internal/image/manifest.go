package image

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// The media types of manifests and lists of them.
const (
	kindIndex        = "application/vnd.oci.image.index.v1+json"
	kindManifest     = "application/vnd.oci.image.manifest.v1+json"
	kindConfig       = "application/vnd.oci.image.config.v1+json"
	kindLayer        = "application/vnd.oci.image.layer.v1.tar"
	kindDockerList   = "application/vnd.docker.distribution.manifest.list.v2+json"
	kindDocker       = "application/vnd.docker.distribution.manifest.v2+json"
	kindDockerConfig = "application/vnd.docker.container.image.v1+json"
)

func manifestKinds() []string { return []string{kindIndex, kindManifest, kindDockerList, kindDocker} }

// Limits of an image's description.
const (
	mostLayers    = 127
	mostConfig    = 4 << 20   // bytes of the config as it comes
	mostKept      = 256 << 10 // bytes of what is kept of it
	mostLabel     = 4 << 10   // bytes of a label; longer ones are left out
	mostVariable  = 128 << 10 // bytes of a variable with its name and end, as Linux has it
	mostPlatforms = 512       // images in a list
	mostLists     = 3         // lists in lists
)

// descriptor is a reference to a blob.
type descriptor struct {
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

func (p wirePlatform) platform() platform {
	return platform{OS: p.OS, Arch: p.Architecture, Variant: p.Variant}
}

// manifest is one image's, or a list's: exactly one of Manifests and Layers counts, by kind.
type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType,omitempty"`
	Config        descriptor        `json:"config,omitzero"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`

	list bool
}

// parseManifest reads an image's manifest or a list of them. declared is the type that its bearer gave it, "" for none.
func parseManifest(data []byte, declared string) (*manifest, error) {
	var fields map[string]json.RawMessage
	m := &manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fault("manifest", "the manifest is not JSON of the right form: %s", printable(err.Error()))
	}
	_ = json.Unmarshal(data, &fields) // it is an object: it went into one
	kind := m.MediaType
	if kind == "" {
		kind, _, _ = strings.Cut(declared, ";")
	}
	_, hasLayers := fields["layers"]
	_, hasList := fields["manifests"]
	switch {
	case m.SchemaVersion == 1:
		return nil, fault("schema", "its manifest is of schema 1, which has no checked config; its registry or maker must convert it")
	case m.SchemaVersion != 2:
		return nil, fault("schema", "its manifest is of schema %d, not 2", m.SchemaVersion)
	case hasLayers && hasList:
		return nil, fault("manifest", "its manifest is an image's and a list at the same time")
	case hasList, kind == kindIndex, kind == kindDockerList:
		m.list = true
	}
	if m.list {
		return m, checkList(m, kind)
	}
	return m, checkManifest(m)
}

func checkList(m *manifest, kind string) error {
	if kind == kindManifest || kind == kindDocker {
		return fault("manifest", "its manifest claims to be an image's, but is a list")
	}
	if len(m.Manifests) > mostPlatforms {
		return fault("manifest", "its list has %d images, more than %d", len(m.Manifests), mostPlatforms)
	}
	for _, d := range m.Manifests {
		if !wholeDigest(d.Digest) || d.Size < 0 {
			return fault("manifest", "its list has an image without a sha256 digest and a size")
		}
	}
	return nil
}

func checkManifest(m *manifest) error {
	switch kind := m.Config.MediaType; kind {
	case kindConfig, kindDockerConfig, "":
	case "application/octet-stream", "application/json", "text/html": // what registries of old have made of it
	default:
		return fault("config", "it is not an image of programs: its type is %q", printable(kind))
	}
	switch {
	case m.MediaType == kindIndex || m.MediaType == kindDockerList:
		return fault("manifest", "its manifest claims to be a list, but is an image's")
	case !wholeDigest(m.Config.Digest):
		return fault("manifest", "its manifest names no config by a sha256 digest")
	case m.Config.Size < 0 || m.Config.Size > mostConfig:
		return fault("config", "its config has %d bytes, more than %d", m.Config.Size, mostConfig)
	case len(m.Layers) > mostLayers:
		return fault("layers", "it has %d layers, more than %d", len(m.Layers), mostLayers)
	}
	for i, l := range m.Layers {
		if err := checkLayer(l); err != nil {
			return err
		}
		if !wholeDigest(l.Digest) || l.Size < 0 {
			return fault("layers", "its layer %d has no sha256 digest and size", i)
		}
	}
	return nil
}

// checkLayer refuses what is no tar, or must be fetched from elsewhere.
func checkLayer(l descriptor) error {
	kind := l.MediaType
	switch {
	case strings.Contains(kind, "foreign"), strings.Contains(kind, "nondistributable"):
		return fault("layer_type", "its layer %s is not to be had from registries (%s)", printable(l.Digest), printable(kind))
	case strings.HasSuffix(kind, "+encrypted"):
		return fault("layer_type", "its layer %s is encrypted", printable(l.Digest))
	}
	known := []string{"", ".tar", ".tar+gzip", ".tar+zstd", ".tar.gzip", ".tar.zstd"}
	for _, base := range []string{strings.TrimSuffix(kindLayer, ".tar"), "application/vnd.docker.image.rootfs.diff"} {
		if rest, ok := strings.CutPrefix(kind, base); ok && slices.Contains(known, rest) {
			return nil
		}
	}
	return fault("layer_type", "its layer %s is of an unknown type (%s)", printable(l.Digest), printable(kind))
}

// words is a list of strings, or the one string that old images have in its place.
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

// config is an image's config as it comes.
type config struct {
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

// parseConfig reads a config of an image of so many layers.
func parseConfig(data []byte, layers int) (*config, error) {
	if len(data) > mostConfig {
		return nil, fault("config", "its config has %d bytes, more than %d", len(data), mostConfig)
	}
	c := &config{}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fault("config", "its config is not JSON of the right form: %s", printable(err.Error()))
	}
	if len(c.RootFS.DiffIDs) != layers {
		return nil, fault("config", "its config is of %d layers, and it has %d", len(c.RootFS.DiffIDs), layers)
	}
	for _, id := range c.RootFS.DiffIDs {
		if !wholeDigest(id) {
			return nil, fault("config", "its config names a layer by no sha256 digest: %s", printable(id))
		}
	}
	return c, nil
}

// platform is what the image is for. What says nothing is taken to be right.
func (c *config) platform(want platform) platform {
	if c.OS == "" && c.Architecture == "" {
		return want
	}
	return platform{OS: c.OS, Arch: c.Architecture, Variant: c.Variant}
}
