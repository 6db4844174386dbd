// Package imagetest is the conformance suite of stores of images.
package imagetest

import (
	"archive/tar"
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

// Subject is the store under test.
type Subject struct {
	image.Library
	// Publish makes an image that can be pulled, and returns its reference.
	Publish func(name, content string) (ref string)
	// Use uses an image as a sandbox does, until end is called.
	Use func(root image.Root) (end func())
}

// Run runs the suite. open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"host": host, "absent": absent, "import": imports, "names": names, "tag": tag, "remove": remove, "in use": inUse,
		"prune": prune, "prune bounds": pruneBounds, "pull": pull, "pull again": pullAgain, "pull of nothing": pullOfNothing,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// host tests that host is always present, first, and cannot be removed.
func host(t *testing.T, s Subject) {
	for _, ref := range []string{"", "host"} {
		root, err := s.Find(t.Context(), ref)
		if err != nil || root.Ref != "host" || root.Digest != "" {
			t.Errorf("Find(%q) = %+v, %v", ref, root, err)
		}
	}
	if got, err := s.Get(t.Context(), "host"); err != nil || got.Ref != "host" || got.Source != "host" {
		t.Errorf("Get(host) = %+v, %v", got, err)
	}
	if got := s.Names(); !slices.Equal(got, []string{"host"}) {
		t.Errorf("names are %q, want host alone", got)
	}
	wantCode(t, "remove host", s.Remove(t.Context(), "host"), belljar.CodeInvalidRequest)
	_, err := s.Tag(t.Context(), "host", "other")
	wantCode(t, "tag host", err, belljar.CodeInvalidRequest)
}

// absent tests that the error of a missing image lists the images that exist.
func absent(t *testing.T, s Subject) {
	_, err := s.Find(t.Context(), "nobody/nothing")
	e := wantCode(t, "find", err, belljar.CodeImageUnavailable)
	if list, _ := e.Details["available"].([]string); !slices.Equal(list, []string{"host"}) || e.Details["image"] != "nobody/nothing" {
		t.Errorf("details are %v, want the image and what is available", e.Details)
	}
	_, err = s.Get(t.Context(), "nobody/nothing")
	wantCode(t, "get", err, belljar.CodeNotFound)
	_, err = s.Tag(t.Context(), "nobody/nothing", "other")
	wantCode(t, "tag", err, belljar.CodeNotFound)
	wantCode(t, "remove", s.Remove(t.Context(), "nobody/nothing"), belljar.CodeNotFound)
}

// imports tests that an archive becomes an image that is found by its name in every form, and by its digest.
func imports(t *testing.T, s Subject) {
	var last belljar.ImageProgress
	made, err := s.Import(t.Context(), "team/tool:1", archive(t, "one"), func(p belljar.ImageProgress) { last = p })
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	if made.Source != "import" || !strings.HasPrefix(made.Digest, "sha256:") || made.Ref != "docker.io/team/tool:1" {
		t.Errorf("imported %+v", made)
	}
	if last.Phase != belljar.ImageDone {
		t.Errorf("the last progress is %+v, want phase %s", last, belljar.ImageDone)
	}
	for _, ref := range []string{"team/tool:1", "docker.io/team/tool:1", made.Digest, made.Digest[:len("sha256:")+12], "team/tool@" + made.Digest} {
		root, err := s.Find(t.Context(), ref)
		if err != nil || root.Digest != made.Digest {
			t.Errorf("Find(%q) = %+v, %v; want %s", ref, root, err, made.Digest)
		}
	}
	_, err = s.Find(t.Context(), "other/tool@"+made.Digest)
	wantCode(t, "find the digest in another repository", err, belljar.CodeImageUnavailable)
	_, err = s.Import(t.Context(), "host", archive(t, "two"), nil)
	wantCode(t, "import as host", err, belljar.CodeInvalidRequest)
}

// names tests that names are sorted after host, and so is the list.
func names(t *testing.T, s Subject) {
	for _, name := range []string{"b", "a", "c"} {
		load(t, s, "team/"+name, name)
	}
	want := []string{"host", "docker.io/team/a:latest", "docker.io/team/b:latest", "docker.io/team/c:latest"}
	if got := s.Names(); !slices.Equal(got, want) {
		t.Errorf("names are %q, want %q", got, want)
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 4 {
		t.Fatalf("list: %d images, %v; want 4", len(list), err)
	}
	if !slices.IsSortedFunc(list, func(x, y belljar.Image) int { return strings.Compare(x.Ref, y.Ref) }) {
		t.Errorf("the list is not sorted: %+v", list)
	}
}

// tag tests that an image has several names, and that a name moves.
func tag(t *testing.T, s Subject) {
	one, two := load(t, s, "team/one", "1"), load(t, s, "team/two", "2")
	got, err := s.Tag(t.Context(), "team/one", "current")
	if err != nil || got.Digest != one.Digest || !slices.Contains(got.Names, "current") {
		t.Fatalf("tag: %+v, %v", got, err)
	}
	if got, err = s.Tag(t.Context(), two.Digest, "current"); err != nil || got.Digest != two.Digest {
		t.Fatalf("tag by digest: %+v, %v", got, err)
	}
	if root, err := s.Find(t.Context(), "current"); err != nil || root.Digest != two.Digest {
		t.Errorf("the name that moved is %s, %v; want %s", root.Digest, err, two.Digest)
	}
	if got, err := s.Get(t.Context(), "team/one"); err != nil || slices.Contains(got.Names, "current") {
		t.Errorf("the image that lost its name: %+v, %v", got, err)
	}
	for _, bad := range []string{"host", "sha256:012345678901", " ", "-x"} {
		_, err := s.Tag(t.Context(), "team/one", bad)
		wantCode(t, "tag "+bad, err, belljar.CodeInvalidRequest)
	}
}

// remove tests that Remove removes one name, the image with its last name, or all of it by digest.
func remove(t *testing.T, s Subject) {
	one, two := load(t, s, "team/one", "1"), load(t, s, "team/two", "2")
	if _, err := s.Tag(t.Context(), "team/one", "current"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "current"); err != nil {
		t.Fatalf("remove a name: %v", err)
	}
	if _, err := s.Find(t.Context(), one.Digest); err != nil {
		t.Errorf("the image went with one of its names: %v", err)
	}
	if err := s.Remove(t.Context(), "team/one"); err != nil {
		t.Fatalf("remove the last name: %v", err)
	}
	_, err := s.Find(t.Context(), one.Digest)
	wantCode(t, "find what was removed", err, belljar.CodeImageUnavailable)
	if err := s.Remove(t.Context(), two.Digest); err != nil {
		t.Fatalf("remove by digest: %v", err)
	}
	if got := s.Names(); !slices.Equal(got, []string{"host"}) {
		t.Errorf("names left are %q", got)
	}
}

// inUse tests that an image in use cannot be removed.
func inUse(t *testing.T, s Subject) {
	made := load(t, s, "team/tool", "1")
	root, err := s.Find(t.Context(), "team/tool")
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(){s.Use(root), s.Library.Use(made.Digest), s.Library.Use(made.Digest)} { // each of them is enough
		keptInUse(t, s)
		end()
		end()
	}
	if gone, err := s.Prune(t.Context(), belljar.ImagePrune{All: true}); err != nil || !slices.Equal(gone.Images, []string{made.Digest}) {
		t.Errorf("prune took %+v, %v; want %s", gone, err, made.Digest)
	}
	s.Library.Use(made.Digest)()
}

// keptInUse tests that Prune keeps an image in use.
func keptInUse(t *testing.T, s Subject) {
	t.Helper()
	if got, err := s.Get(t.Context(), "team/tool"); err != nil || !got.InUse {
		t.Errorf("an image in use is %+v, %v", got, err)
	}
	wantCode(t, "remove what is used", s.Remove(t.Context(), "team/tool"), belljar.CodeConflict)
	if gone, err := s.Prune(t.Context(), belljar.ImagePrune{All: true}); err != nil || len(gone.Images) != 0 {
		t.Errorf("prune took %+v, %v", gone, err)
	}
}

// prune tests that Prune removes all unused images, or none if none is old or large enough.
func prune(t *testing.T, s Subject) {
	load(t, s, "team/one", "content 1")
	load(t, s, "team/two", "content 2")
	for name, p := range map[string]belljar.ImagePrune{"used lately": {UnusedSec: 3600}, "room enough": {KeepBytes: 1 << 40}} {
		if gone, err := s.Prune(t.Context(), p); err != nil || len(gone.Images) != 0 {
			t.Errorf("%s: prune took %+v, %v", name, gone, err)
		}
	}
	if gone, err := s.Prune(t.Context(), belljar.ImagePrune{KeepBytes: 1}); err != nil || len(gone.Images) != 2 {
		t.Errorf("no room: prune took %+v, %v", gone, err)
	}
	if got := s.Names(); !slices.Equal(got, []string{"host"}) {
		t.Errorf("names left are %q", got)
	}
}

// pruneBounds tests that a request that sets no bound, or too many, is refused.
func pruneBounds(t *testing.T, s Subject) {
	for _, p := range []belljar.ImagePrune{{}, {All: true, KeepBytes: 1}, {UnusedSec: -1}, {KeepBytes: -1}} {
		_, err := s.Prune(t.Context(), p)
		wantCode(t, "prune", err, belljar.CodeInvalidRequest)
	}
}

// pull tests that a published image can be pulled.
func pull(t *testing.T, s Subject) {
	ref := s.Publish("team/tool:1", "one")
	got, err := s.Pull(t.Context(), ref, false, nil)
	if err != nil {
		t.Fatalf("pull: %v", err)
	}
	if got.Source != "pull" || got.Ref != ref {
		t.Errorf("pulled %+v, want %s", got, ref)
	}
	if root, err := s.Find(t.Context(), ref); err != nil || root.Digest != got.Digest {
		t.Errorf("found %+v, %v; want %s", root, err, got.Digest)
	}
}

// pullAgain tests that an existing image is fetched again only if always is set.
func pullAgain(t *testing.T, s Subject) {
	ref := s.Publish("team/tool:1", "one")
	first, err := s.Pull(t.Context(), ref, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Publish("team/tool:1", "two")
	again, err := s.Pull(t.Context(), ref, false, nil)
	if err != nil || again.Digest != first.Digest {
		t.Errorf("pulled again: %s, %v; want what was here, %s", again.Digest, err, first.Digest)
	}
	moved, err := s.Pull(t.Context(), ref, true, nil)
	if err != nil || moved.Digest == first.Digest {
		t.Errorf("pulled always: %s, %v; want what is published now", moved.Digest, err)
	}
	if root, err := s.Find(t.Context(), ref); err != nil || root.Digest != moved.Digest {
		t.Errorf("the name is %s, %v; want %s", root.Digest, err, moved.Digest)
	}
}

// pullOfNothing tests that an image that no registry has cannot be pulled.
func pullOfNothing(t *testing.T, s Subject) {
	ref := s.Publish("team/tool:1", "one")
	_, err := s.Pull(t.Context(), strings.TrimSuffix(ref, "1")+"2", false, nil)
	wantCode(t, "pull a tag that is not there", err, belljar.CodeImageUnavailable)
	_, err = s.Pull(t.Context(), "sha256:"+strings.Repeat("0", 64), false, nil)
	if err == nil {
		t.Error("a digest alone was pulled")
	}
}

func load(t *testing.T, s Subject, name, content string) belljar.Image {
	t.Helper()
	made, err := s.Import(t.Context(), name, archive(t, content), nil)
	if err != nil {
		t.Fatalf("import %s: %v", name, err)
	}
	return made
}

// archive makes a root file system with one file.
func archive(t *testing.T, content string) *bytes.Reader {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "file", Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(buf.Bytes())
}

func wantCode(t *testing.T, what string, err error, code belljar.Code) *belljar.Error {
	t.Helper()
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("%s: %v, want %s", what, err, code)
	}
	return e
}
