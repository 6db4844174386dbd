// Package sdk prepares the SDKs for tests that use them as programs do. It writes nothing into the source tree.
package sdk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar/test/build"
)

// Python returns the folder from which the Python SDK can be imported.
func Python() (string, error) {
	root, err := build.Root()
	return filepath.Join(root, "sdk/python/src"), err
}

// TypeScript returns the folder of the TypeScript SDK, with its tests, as make sdk has built it for make test. Without make it is a
// copy below dir, built by one of its scripts (build; pretest for its tests, too). The tools for that come from the checkout if they
// are installed there, else from npm, as the lock file requires.
func TypeScript(ctx context.Context, dir, script string) (string, error) {
	root, err := build.Root()
	if err != nil {
		return "", err
	}
	if build.Prepared() {
		return filepath.Join(root, "sdk/typescript"), nil
	}
	source, copied := filepath.Join(root, "sdk/typescript"), filepath.Join(dir, "typescript")
	if err := copyTree(source, copied); err != nil {
		return "", err
	}
	modules := filepath.Join(source, "node_modules")
	_, err = os.Stat(filepath.Join(modules, ".package-lock.json")) // it is written last
	switch {
	case err == nil:
		err = os.Symlink(modules, filepath.Join(copied, "node_modules"))
	case errors.Is(err, fs.ErrNotExist):
		err = run(ctx, copied, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	}
	if err == nil {
		err = run(ctx, copied, "npm", "run", "--silent", script)
	}
	return copied, err
}

// Depend makes a project find the TypeScript SDK and its build tools, as npm install would.
func Depend(project, typescript string) error {
	modules, theirs := filepath.Join(project, "node_modules"), filepath.Join(typescript, "node_modules")
	if err := os.MkdirAll(modules, 0o755); err != nil {
		return err
	}
	list, err := os.ReadDir(theirs)
	for _, entry := range list {
		err = errors.Join(err, os.Symlink(filepath.Join(theirs, entry.Name()), filepath.Join(modules, entry.Name())))
	}
	return errors.Join(err, os.Symlink(typescript, filepath.Join(modules, "belljar")))
}

// copyTree copies a package without its installed and built files.
func copyTree(source, to string) error {
	return filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && (entry.Name() == "node_modules" || inside == "dist" || inside == "build"):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, inside), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, inside), content, 0o644)
	})
}

func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
