package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"strings"
	"testing"
	"time"
)

// entry is an input of tarOf and zipOf: a file, a folder if its name ends in a slash, or the type that kind and mode
// set.
type entry struct {
	name, body string
	mode       int64
	kind       byte // of a tar entry; 0 is a file or folder
	link       string
	pax        map[string]string
	zipMode    fs.FileMode
	store      bool
}

func tarOf(t testing.TB, list ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range list {
		h := &tar.Header{
			Typeflag: e.kind, Name: e.name, Mode: e.mode, Size: int64(len(e.body)), Linkname: e.link, PAXRecords: e.pax,
			ModTime: time.Unix(1_700_000_000, 0),
		}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
			if strings.HasSuffix(e.name, "/") {
				h.Typeflag = tar.TypeDir
			}
		}
		if e.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: e.kind, Name: e.name, PAXRecords: e.pax}
		}
		if err := w.WriteHeader(h); err != nil {
			// Patch in a name that the writer would refuse.
			h.Name = strings.Repeat("#", len(e.name))
			if err := w.WriteHeader(h); err != nil {
				t.Fatalf("%q: %v", e.name, err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func zipOf(t testing.TB, list ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, e := range list {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: time.Unix(1_700_000_000, 0)}
		switch {
		case e.zipMode != 0:
			h.SetMode(e.zipMode)
		case e.mode != 0:
			h.SetMode(fs.FileMode(e.mode & 0o777))
		}
		if e.store {
			h.Method = zip.Store
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gz(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
