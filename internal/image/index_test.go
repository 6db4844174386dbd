//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/manifest"
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

// TestIndexFullOfPulls tests that pulls displace pulled images that no sandbox uses, the least recently used first, and no others.
func TestIndexFullOfPulls(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s, err := Open(Options{Path: filepath.Join(t.TempDir(), "images"), Clock: func() time.Time { now = now.Add(time.Minute); return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.index.most = 4096
	add := func(source, name string) belljar.Image {
		t.Helper()
		sum := sha256.Sum256([]byte(name))
		img, err := s.assemble(t.Context(), manifest.Image{
			Digest: "sha256:" + hex.EncodeToString(sum[:]), Names: []string{name}, Source: source, Config: &manifest.Config{},
		}, func(belljar.ImageProgress) {})
		if err != nil {
			t.Fatal(name, err)
		}
		return img
	}
	add(manifest.Imported, "imported")
	defer s.Use(add(manifest.Pulled, "used").Digest)()
	for n := range 50 {
		add(manifest.Pulled, fmt.Sprint("pulled", n))
		if n > 25 {
			if _, err := s.Find(t.Context(), "pulled25"); err != nil { // a use
				t.Fatal(n, err)
			}
		}
	}
	for name, want := range map[string]bool{"imported": true, "used": true, "pulled0": false, "pulled25": true, "pulled24": false, "pulled49": true, "pulled48": true} {
		if _, err := s.Find(t.Context(), name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Tag(t.Context(), "pulled49", strings.Repeat("long-", 40)); err != nil {
		t.Error(err)
	}
}

// TestIndexFullForTheNamed tests that a full list removes another image than the one that gets a name, even if that was used least recently.
func TestIndexFullForTheNamed(t *testing.T) {
	for name, give := range map[string]func(*Store, manifest.Image, string) (belljar.Image, error){
		"tag": func(s *Store, m manifest.Image, name string) (belljar.Image, error) {
			return s.Tag(t.Context(), m.Names[0], name)
		},
		"pull": func(s *Store, m manifest.Image, name string) (belljar.Image, error) {
			m.Names = []string{name}
			return s.name(t.Context(), m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_700_000_000, 0)
			s, err := Open(Options{Path: filepath.Join(t.TempDir(), "images"), Clock: func() time.Time { now = now.Add(time.Minute); return now }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			images := make([]manifest.Image, 3)
			for n := range images {
				sum := sha256.Sum256([]byte{byte(n)})
				images[n] = manifest.Image{
					Digest: "sha256:" + hex.EncodeToString(sum[:]), Names: []string{fmt.Sprint("old", n)}, Source: manifest.Pulled, Config: &manifest.Config{},
				}
				if _, err := s.assemble(t.Context(), images[n], func(belljar.ImageProgress) {}); err != nil {
					t.Fatal(err)
				}
			}
			v, err := s.index.load()
			if err != nil {
				t.Fatal(err)
			}
			s.index.most = v.size
			if img, err := give(s, images[0], "new"); err != nil || img.Digest != images[0].Digest || !slices.Contains(img.Names, "old0") {
				t.Errorf("%+v, %v", img, err)
			}
			for name, want := range map[string]bool{"new": true, "old0": true, "old1": false, "old2": true} {
				if _, err := s.Find(t.Context(), name); (err == nil) != want {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// TestNamesOfPulls tests that pulls under many names leave an image few of them, and all that an operator gave it.
func TestNamesOfPulls(t *testing.T) {
	s, err := Open(Options{Path: filepath.Join(t.TempDir(), "images")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pull := func(name string) belljar.Image {
		t.Helper()
		img, err := s.assemble(t.Context(), manifest.Image{
			Digest: "sha256:" + strings.Repeat("0", 64), Names: []string{name}, Source: manifest.Pulled, Config: &manifest.Config{},
		}, func(belljar.ImageProgress) {})
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	pull("first")
	for _, name := range []string{"first", "tag"} {
		if _, err := s.Tag(t.Context(), "first", name); err != nil {
			t.Fatal(err)
		}
	}
	var last belljar.Image
	for n := range 50 {
		pull("tag")
		last = pull(fmt.Sprint("pulled", n))
	}
	want := []string{"first", "tag"}
	for n := range mostPulls {
		want = append(want, fmt.Sprint("pulled", 50-mostPulls+n))
	}
	if !slices.Equal(last.Names, want) {
		t.Errorf("names %q, want %q", last.Names, want)
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
