// Command notices writes the licences of all that releases contain: notices FILE FOLDER… A folder has a package-lock.json, and the npm packages
// of it installed, or else Go programs.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(out string, folders []string) error {
	parts := map[string]string{} // name and version → folder
	for _, folder := range folders {
		lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
		if err == nil {
			err = packages(folder, lock, parts)
		} else if errors.Is(err, os.ErrNotExist) {
			err = modules(folder, parts)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	text := "Belljar contains the following software of others.\n"
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		licences, err := licences(parts[part])
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		text += "\n" + strings.Repeat("=", 80) + "\n" + part + "\n" + licences
	}
	return os.WriteFile(out, []byte(text), 0o644)
}

// modules finds the modules of the Go programs under a folder, on all systems of releases, and Go's standard library.
func modules(folder string, parts map[string]string) error {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", "list", "-C", folder, "-e", "-deps", "-tags=belljar_memory_limit",
			"-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./...")
		list.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		found, err := list.Output()
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(found)) {
			if name, dir, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
				parts[name] = dir
			}
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	parts["The standard library of Go"] = strings.TrimSpace(string(root))
	return err
}

// packages finds the npm packages of a folder that are not for its development.
func packages(folder string, text []byte, parts map[string]string) error {
	var lock struct {
		Packages map[string]struct {
			Version string
			Dev     bool
		}
	}
	err := json.Unmarshal(text, &lock)
	for path, p := range lock.Packages {
		if path != "" && !p.Dev {
			_, name, _ := strings.Cut("/"+path, "/node_modules/")
			parts[name+" "+p.Version] = filepath.Join(folder, path)
		}
	}
	return err
}

// licences returns the texts of a folder's licence and notice files. Without any, its package.json has the name of the licence.
func licences(folder string) (texts string, err error) {
	names, err := filepath.Glob(folder + "/*") // a module that is not on this machine has no folder
	for _, wanted := range []string{`(?i)^(licen[cs]e|copying|notice|patents)`, `^package\.json$`} {
		for _, name := range names {
			if !regexp.MustCompile(wanted).MatchString(filepath.Base(name)) {
				continue
			}
			text, failed := os.ReadFile(name)
			texts += "\n" + strings.TrimSpace(string(text)) + "\n"
			err = errors.Join(err, failed)
		}
		if texts != "" {
			return texts, err
		}
	}
	return "", errors.Join(err, errors.New("it has no licence"))
}
