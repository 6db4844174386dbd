//go:build linux

package container

import (
	"archive/tar"
	"bytes"
	"os"
	"testing"
)

// archive makes a tar in memory. It keeps the first error.
type archive struct {
	buf bytes.Buffer
	w   *tar.Writer
	err error
}

func (a *archive) put(h tar.Header, body []byte) {
	if a.w == nil {
		a.w = tar.NewWriter(&a.buf)
	}
	h.Size = int64(len(body))
	if a.err == nil {
		a.err = a.w.WriteHeader(&h)
	}
	if a.err == nil {
		_, a.err = a.w.Write(body)
	}
}

func (a *archive) folder(name string, mode int64) {
	a.put(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

func (a *archive) link(name, target string) {
	a.put(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

func (a *archive) file(t *testing.T, name, from string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	a.put(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, raw)
}

func (a *archive) bytes() ([]byte, error) {
	if a.err == nil && a.w != nil {
		a.err = a.w.Close()
	}
	return a.buf.Bytes(), a.err
}
