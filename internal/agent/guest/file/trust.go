//go:build linux

package file

import (
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/wire"
)

const (
	maxAuthority = 1 << 20
	maxBundle    = 4 << 20 // a longer one is not read: its files are kept in memory
)

// bundles lists the usual files with an image's trusted certificates.
func bundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem",
		"/etc/pki/tls/cacert.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/ssl/cert.pem",
	}
}

// Trust writes [wire.TrustBundle] and [wire.TrustStore] to dir, readable by every user: the image's trusted certificates, and
// the host's certificate, which the stream sends as PEM. An existing folder is [wire.CodeExists].
func Trust(s Stream, dir string, own identity.Own, req wire.FileRequest) error {
	user := identity.ID{UID: req.UID, GID: req.GID}
	if !user.Valid() {
		return fault.Invalid("no such user: %d:%d", req.UID, req.GID)
	}
	in := &contents{s: s}
	authority, err := io.ReadAll(io.LimitReader(in, maxAuthority+1))
	switch {
	case in.failed():
		return fault.ErrDisconnected
	case err != nil:
		return err
	}
	if block, _ := pem.Decode(authority); block == nil || len(authority) > maxAuthority {
		return fault.Invalid("not the certificate of an authority")
	}
	return s.done(own.As(user, func() error { return writeTrust(dir, bundles(), authority) }))
}

func writeTrust(dir string, systems []string, authority []byte) error {
	bundle := append(system(systems), authority...)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask
		return err
	}
	for name, contents := range map[string][]byte{wire.TrustBundle: bundle, wire.TrustStore: trustStore(bundle)} {
		f, err := os.OpenFile(dir+"/"+name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
		if err != nil {
			return err
		}
		_, err = f.Write(contents)
		if err := errors.Join(err, f.Chmod(0o444), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// system returns the first bundle that can be read. An image may have any file there.
func system(paths []string) []byte {
	for _, path := range paths {
		if text, err := readBundle(path); err == nil && len(text) > 0 {
			if !bytes.HasSuffix(text, []byte("\n")) {
				text = append(text, '\n')
			}
			return text
		}
	}
	return nil
}

func readBundle(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() || info.Size() > maxBundle {
		return nil, os.ErrInvalid
	}
	return io.ReadAll(io.LimitReader(f, maxBundle))
}
