//go:build linux

package file

import (
	"io"
	"os"
	"strings"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/wire"
)

// SecretDir is the folder of secrets, in memory and outside the workspace: no file request reaches it.
const SecretDir = "/run/secrets"

// maxSecret is the maximum length of a secret in bytes.
const maxSecret = 64 << 10

// Secret writes a secret to the file req.Path in dir, which only the user of the request can read. It makes the folder. A file
// or link of that name is [wire.CodeExists].
func Secret(s Stream, dir string, own identity.Own, req wire.FileRequest) error {
	user := identity.ID{UID: req.UID, GID: req.GID}
	if !user.Valid() {
		return fault.Invalid("no such user: %d:%d", req.UID, req.GID)
	}
	if req.Path == "" || len(req.Path) > 255 || req.Path[0] == '.' || strings.ContainsAny(req.Path, "/\x00") {
		return fault.Invalid("%q is not the name of a secret", req.Path)
	}
	in := &contents{s: s}
	value, err := io.ReadAll(io.LimitReader(in, maxSecret+1))
	switch {
	case in.failed():
		return fault.ErrDisconnected
	case err != nil:
		return err
	case len(value) > maxSecret:
		return fault.New(wire.CodeTooLarge, "a secret has at most %d bytes", maxSecret)
	}
	return s.done(own.As(user, func() error { return writeSecret(dir, req.Path, value) }))
}

func writeSecret(dir, name string, value []byte) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	if info, err := os.Lstat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fault.New(wire.CodeExists, "%s is not a folder", dir) // an earlier program has made it
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = f.Write(value)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
