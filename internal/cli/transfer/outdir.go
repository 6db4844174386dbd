package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
)

// OutDir is the folder of --out. It never writes outside the folder or through a symbolic link in it, for any names that a sandbox
// chooses.
type OutDir struct {
	Name string
	root *os.Root
}

// OpenOutDir creates the folder if it is missing and checks that it is writable.
func OpenOutDir(name string) (*OutDir, error) {
	if err := os.MkdirAll(name, 0o755); err != nil {
		return nil, mistake.New("", "--out %s: %s", name, mistake.Reason(err))
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, mistake.New("", "--out %s: %s", name, mistake.Reason(err))
	}
	o := &OutDir{Name: name, root: root}
	probe := ".belljar-" + belljar.NewID()
	f, err := root.OpenFile(probe, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		root.Close()
		return nil, mistake.New("name a folder that you can write to", "--out %s: %s", name, mistake.Reason(err))
	}
	return o, errors.Join(f.Close(), root.Remove(probe))
}

func (o *OutDir) Close() error { return o.root.Close() }

// Save writes one artifact through a temporary file, so that readers see only complete files. It replaces a link in the artifact's
// place, and does not follow it.
func (o *OutDir) Save(a belljar.Artifact, content io.Reader) (err error) {
	name := path.Clean(strings.TrimPrefix(a.Path, belljar.WorkspaceDir+"/")) // the path need not be UTF-8
	if !filepath.IsLocal(name) || name == "." {
		return fmt.Errorf("artifact %q has no place in %s", a.Path, o.Name)
	}
	if err := o.folder(path.Dir(name)); err != nil {
		return err
	}
	temporary := path.Join(path.Dir(name), ".belljar-"+belljar.NewID())
	// Drop set-id bits, which would mean another user here, and write access for group and others.
	mode := cmp.Or(fs.FileMode(a.Mode)&0o755, 0o644)
	f, err := o.root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode|0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.root.Remove(temporary))
		}
	}()
	if _, err = io.Copy(f, content); err != nil {
		f.Close()
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = o.root.Rename(temporary, name); err != nil {
		if info, wrong := o.root.Lstat(name); wrong == nil && info.IsDir() {
			err = fmt.Errorf("%s is in the way: a folder", filepath.Join(o.Name, name))
		}
	}
	return err
}

// folder creates a folder and its parents. It refuses symbolic links.
func (o *OutDir) folder(name string) error {
	if name == "." {
		return nil
	}
	if err := o.folder(path.Dir(name)); err != nil {
		return err
	}
	err := o.root.Mkdir(name, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := o.root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is in the way: not a folder", filepath.Join(o.Name, name))
	}
	return nil
}
