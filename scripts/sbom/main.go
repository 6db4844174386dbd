// Command sbom writes the components of a Go program, as Go records them in the binary, as CycloneDX JSON.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

func main() {
	version := flag.String("version", "", "the version of the program")
	out := flag.String("o", "", "the file to write")
	flag.Parse()
	if err := run(*out, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(out, version string, args []string) error {
	if out == "" || version == "" || len(args) != 1 {
		return errors.New("usage: sbom -version VERSION -o FILE PROGRAM")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	sum, err := digest(args[0])
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(list(info, filepath.Base(args[0]), version, sum), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(text, '\n'), 0o644)
}

// bom is the part of CycloneDX 1.6 that a Go program fills.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// list returns the program, its modules and Go itself, whose standard library is part of the program.
func list(info *debug.BuildInfo, name, version, sum string) bom {
	program := component{
		Type: "application", Ref: "program", Name: name, Version: version,
		PURL: "pkg:golang/" + info.Main.Path + "@v" + strings.TrimPrefix(version, "v"), Hashes: []hash{{"SHA-256", sum}},
	}
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{program}}
	b.add("std", strings.TrimPrefix(info.GoVersion, "go"))
	for _, module := range info.Deps {
		for module.Replace != nil {
			module = module.Replace
		}
		b.add(module.Path, module.Version)
	}
	var all []string
	for _, c := range b.Components {
		all = append(all, c.Ref)
	}
	b.Dependencies = []dependency{{Ref: program.Ref, DependsOn: all}}
	return b
}

func (b *bom) add(path, version string) {
	purl := "pkg:golang/" + path + "@" + url.QueryEscape(version)
	b.Components = append(b.Components, component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl})
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
