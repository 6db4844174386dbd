package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/transfer"
)

// file is a template's file: the fields of a request, and fields for this machine.
type file struct {
	belljar.TemplateSpec
	Recipe string            `json:"recipe"` // of an image to make on this machine, which contains the packages.apt
	Suite  string            `json:"suite"`  // Debian's release
	Mirror string            `json:"mirror"` // the server of its packages
	Files  map[string]string `json:"files"`  // local files by their path in the workspace
}

// read reads a template's file, in YAML or JSON.
func read(name string) (*file, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, mistake.New("", "%s: %s", name, mistake.Reason(err))
	}
	var fields map[string]any
	var kind *yaml.TypeError
	if err := decode(raw, &fields); errors.As(err, &kind) && !strings.Contains(err.Error(), "cannot unmarshal") {
		return nil, mistake.New("", "%s: %s", name, strings.Join(kind.Errors, "; "))
	} else if kind != nil {
		return nil, mistake.New("such as base_image: python:3.11-slim", "%s: must have fields, each a name and a value", name)
	} else if err != nil {
		return nil, mistake.New("", "%s: %s", name, strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " "))
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, mistake.New("", "%s: every name must be a text", name)
	}
	var f file
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&f); err != nil {
		return nil, wrong(name, err)
	}
	if f.Name == "" {
		base := filepath.Base(name)
		f.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	return &f, f.check(name)
}

// decode reads YAML. A date without quotes is text, because JSON has no dates.
func decode(raw []byte, fields *map[string]any) error {
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return err
	}
	datesAreText(&document)
	return document.Decode(fields)
}

func datesAreText(n *yaml.Node) {
	if n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, inner := range n.Content {
		datesAreText(inner)
	}
}

// wrong returns the error for a file with an unknown field, or a value of the wrong type.
func wrong(name string, err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		hint := ""
		if kind.Type.String() == "string" {
			hint = "put it in quotes"
		}
		return mistake.New(hint, "%s: %s has a value that is a %s, and must be a %s", name, strings.TrimPrefix(kind.Field, "TemplateSpec."), kind.Value, kindOf(kind.Type.String()))
	}
	if unknown, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return mistake.New("docs/templates.md lists the fields", "%s: unknown field %s", name, unknown)
	}
	return mistake.New("", "%s: %v", name, err)
}

// kindOf returns the name of a Go type for users.
func kindOf(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "list"
	case goType == "bool":
		return "true or false"
	case goType == "string":
		return "text"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "float"):
		return "number"
	}
	return "map"
}

var packagePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{1,99}$`) })

// check refuses a file that cannot be built. It completes the recipe.
func (f *file) check(name string) error {
	switch {
	case f.Recipe == "" && f.BaseImage == "" && len(f.Packages.Apt) == 0:
		return mistake.New("such as base_image: python:3.11-slim, or recipe: python for one of Debian packages that is made here", "%s: neither base_image nor recipe is set", name)
	case f.BaseImage != "" && f.Recipe != "":
		return mistake.New("leave one out", "%s: recipe makes the image, and base_image names one", name)
	case f.BaseImage != "" && len(f.Packages.Apt) > 0:
		return mistake.New("set recipe in place of base_image: shell, python, node, go or java", "%s: packages.apt belong into an image that is made of Debian packages", name)
	case f.Snapshot != "" && len(f.Files) > 0:
		return mistake.New("leave one out", "%s: a build begins with the files of snapshot, or with those of files", name)
	case f.Recipe == "" && f.BaseImage == "":
		f.Recipe = "shell"
	}
	if f.Recipe == "" && f.Suite+f.Mirror != "" {
		return mistake.New("", "%s: suite and mirror are of a recipe", name)
	}
	for _, p := range f.Packages.Apt {
		if !packagePattern().MatchString(p) {
			return mistake.New("such as git or libxml2", "%s: packages.apt: %q is not the name of a Debian package", name, p)
		}
	}
	return nil
}

// upload gathers the files. Their paths are relative to the template's file. The caller closes the upload.
func (f *file) upload(name string) (*transfer.Upload, error) {
	u := &transfer.Upload{}
	for _, place := range slices.Sorted(maps.Keys(f.Files)) { // so that the same files have the same digest
		clean, err := belljar.CleanPath(place)
		if err != nil {
			u.Close()
			return nil, mistake.New("write places in the workspace on the left: app: ./app", "%s: files: %s: %v", name, place, err)
		}
		from := f.Files[place]
		if !filepath.IsAbs(from) {
			from = filepath.Join(filepath.Dir(name), from)
		}
		if err := u.AddTree(from, clean); err != nil {
			u.Close()
			return nil, mistake.In(name, err)
		}
	}
	return u, nil
}
