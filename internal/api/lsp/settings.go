package lsp

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar"
)

// settings are the defaults for the runs of a folder. They are stored outside of the folder, because its files must not choose
// them.
type settings struct {
	Runtime         string            `json:"runtime,omitempty"`
	BaseImage       string            `json:"base_image,omitempty"`
	Policy          policy            `json:"policy,omitzero"`
	TimeoutSec      float64           `json:"timeout_sec,omitempty" minimum:"0.001"`
	CapturePatterns []string          `json:"capture_patterns,omitempty"`
	Env             map[string]string `json:"env,omitempty"`
	Command         []string          `json:"command,omitempty"`
	Sync            syncRules         `json:"sync,omitzero"`
}

type policy struct {
	TrustLevel belljar.TrustLevel `json:"trust_level,omitempty"`
	Isolation  string             `json:"isolation,omitempty"`
}

type syncRules struct {
	Ignore []string `json:"ignore,omitempty"` // lines as in .gitignore
	Allow  []string `json:"allow,omitempty"`  // the same form; also permits binaries
}

// configureArgs are the argument of tldw.sandbox.configure.
type configureArgs struct {
	Folder string `json:"folder,omitempty"`
	settings
}

// hashOf returns a name for a folder that does not reveal its path.
func hashOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:10])
}

// store is the place of a folder's settings.
type store struct{ dir, hash string }

func (s store) file() string { return filepath.Join(s.dir, s.hash+".json") }

// settings reads a folder's settings. Missing settings are no error.
func (s store) settings() (out settings, err error) {
	raw, err := os.ReadFile(s.file())
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		err = dec.Decode(&out)
	}
	if err != nil {
		return settings{}, fmt.Errorf("the settings of the folder cannot be read: %w", err)
	}
	return out, nil
}

func (s store) save(c settings) error {
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return writeWhole(s.file(), bytes.NewReader(append(raw, '\n')), 0o600) // env may be private
}

// check checks settings as far as possible without a server.
func (c *settings) check() error {
	spec := belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, Runtime: c.Runtime, BaseImage: cmp.Or(c.BaseImage, "host"), TimeoutSec: c.TimeoutSec,
		CapturePatterns: c.CapturePatterns, Env: c.Env, Command: c.Command, Isolation: c.Policy.Isolation, TrustLevel: c.Policy.TrustLevel,
	}
	if len(c.Command) == 0 {
		spec.Command = []string{"true"}
	}
	return spec.Validate()
}

// with replaces the given fields.
func (c settings) with(given map[string]json.RawMessage) (next settings, err error) {
	raw, err := json.Marshal(c)
	all := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	maps.Copy(all, given)
	if err == nil {
		raw, err = json.Marshal(all)
	}
	if err == nil {
		err = json.Unmarshal(raw, &next)
	}
	return next, err
}

// terms name the settings that a session is made with: other terms need another session.
func (c settings) terms() string {
	return hashOf(strings.Join([]string{c.Runtime, c.BaseImage, string(c.Policy.TrustLevel), c.Policy.Isolation}, "\x00"))[:8]
}
