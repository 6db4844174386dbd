//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// TestIndexFull tests that the index grows up to its limit and no further, so that it can always be read. Changes that make
// it smaller are always allowed.
func TestIndexFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images")
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.index.most = 4096
	bring := func(n int) error {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprint("f", n), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := s.Import(t.Context(), strings.Repeat("long-", 20)+fmt.Sprint(n), &b, nil)
		return err
	}
	n := 0
	for ; n < 100 && err == nil; n++ {
		err = bring(n)
	}
	if belljar.CodeOf(err) != belljar.CodeDiskFull || !strings.Contains(err.Error(), "list of images") {
		t.Fatalf("after %d images: %v", n, err)
	}
	if info, err := os.Stat(filepath.Join(path, indexFile)); err != nil || info.Size() > 4096 {
		t.Errorf("the list has %d bytes, %v", info.Size(), err)
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != n {
		t.Errorf("%d images, want %d, %v", len(list), n, err)
	}
	if left, err := os.ReadDir(filepath.Join(path, imagesFolder)); err != nil || len(left) != n-1 {
		t.Errorf("%d folders, want %d, %v", len(left), n-1, err)
	}
	s.index.most = 100 // simulates a smaller limit
	if err := s.Remove(t.Context(), list[0].Ref); err != nil {
		t.Error(err)
	}
	if _, err := s.Prune(t.Context(), belljar.ImagePrune{All: true}); err != nil {
		t.Error(err)
	}
}

// An error of the disk does not mean that an image is gone: nothing is dropped or deleted.
func TestImageOnAFailingDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images")
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "f", Mode: 0o644}), w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Import(t.Context(), "mine", &b, nil); err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir(filepath.Join(path, imagesFolder))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	name := filepath.Join(path, imagesFolder, folders[0].Name())
	if err := os.Rename(name, path+"-aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(name, name); err != nil { // every access below it fails with ELOOP
		t.Fatal(err)
	}
	if err := s.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal("the image was moved away: ", err)
	}
	if err := os.Rename(path+"-aside", name); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(t.Context(), "mine"); err != nil {
		t.Error(err)
	}
}
