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

// agentPrefix begins the names of agent files. No sandbox has such a name.
const agentPrefix = ".agent-"

// ownAgent is the name of a sandbox's own link to the agent file, in its folder.
const ownAgent = "agent"

// agentFile is the agent as a file that is visible in a sandbox's root: gVisor executes by path. The installation's folder has one for
// each agent version, named by its contents and read-only to every user. Each sandbox has its own hard link to it, so that the file is
// not removed while the sandbox is made. A folder that is mounted noexec has neither: each sandbox then has a copy in its root.
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
	removeAgentFiles(filepath.Dir(a.path), filepath.Base(a.path)) // of older versions, whose sandboxes may still live
	return nil
}

// in links the file into a sandbox's folder, and returns the new path. Another process removes the file if it finds no sandbox, or is of
// another version; in then makes it again.
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

// removeAgentFiles removes all agent files except but; "" for all. Sandboxes keep their own links.
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
