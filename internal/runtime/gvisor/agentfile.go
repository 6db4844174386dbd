//go:build linux

package gvisor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// agentPrefix begins the names of agent files, none of which is a sandbox's.
const agentPrefix = ".agent-"

// ownAgent is what a sandbox's own name of the agent file is called, in its folder.
const ownAgent = "agent"

// agentFile is the agent as a file, which a sandbox's root shows: gVisor executes by path. There is one in the folder of the
// installation, by its contents, read-only to every user; each sandbox has a link of its own to it, so that it is not removed
// while the sandbox is made.
type agentFile struct {
	path string
	from io.ReaderAt
	size int64
}

func newAgentFile(dir string, from io.ReaderAt) (agentFile, error) {
	sum := sha256.New()
	size, err := io.Copy(sum, io.NewSectionReader(from, 0, math.MaxInt64))
	if err != nil {
		return agentFile{}, err
	}
	return agentFile{path: filepath.Join(dir, agentPrefix+hex.EncodeToString(sum.Sum(nil)[:8])), from: from, size: size}, nil
}

// ensure makes the file if it is missing: another process of the installation removes it with its last sandbox.
func (a agentFile) ensure() error {
	if info, err := os.Lstat(a.path); err == nil && info.Mode().IsRegular() && info.Size() == a.size {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(a.path), agentPrefix+"*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(a.from, 0, a.size))
	if err == nil {
		err = f.Chmod(0o555)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), a.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("put the agent into a file: %w", err)
	}
	removeAgentFiles(filepath.Dir(a.path), filepath.Base(a.path)) // of versions before, whose sandboxes may live on
	return nil
}

// in gives the file a name in a sandbox's folder, and returns it. A process that finds no sandbox, or is of another version, removes the
// file; we then make it again.
func (a agentFile) in(folder string) (path string, err error) {
	path = filepath.Join(folder, ownAgent)
	for range 100 {
		if err = a.ensure(); err == nil {
			err = os.Link(a.path, path)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return path, err
}

// removeAgentFiles removes all there are but one, "" for none. Sandboxes that show one keep it.
func removeAgentFiles(dir, but string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), agentPrefix) && e.Name() != but {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
