//go:build linux

package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	limits "github.com/belljar/belljar/internal/archive"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// files is an upload of single files.
func files(list map[string]string) belljar.Upload {
	return belljar.Upload{Parts: func(yield func(belljar.UploadPart, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if !yield(belljar.UploadPart{Name: name, Format: belljar.UploadFile, Body: strings.NewReader(list[name])}, nil) {
				return
			}
		}
	}}
}

// packed is an upload of one archive.
func packed(format belljar.UploadFormat, body io.Reader) belljar.Upload {
	return belljar.Upload{Parts: func(yield func(belljar.UploadPart, error) bool) {
		yield(belljar.UploadPart{Name: "part", Format: format, Body: body}, nil)
	}}
}

// tree returns the content of a session's workspace, from the view of a run.
func (b *bench) tree(s belljar.Session) string {
	b.t.Helper()
	r := b.run(in(s, `find . -mindepth 1 -printf '%P %y\n' | sort; find . -type f | sort | xargs -r cat`))
	r.want(b.t, belljar.PhaseCompleted, 0, "")
	return r.stdout
}

func TestSessionUpload(t *testing.T) {
	events := &diary{}
	b := newBench(t, func(o *service.Options) { o.Events = events })
	s := b.open()
	u := packed(belljar.UploadTar, archive(t, map[string]string{"a": "A", "d/e/f": "F"}))
	got, err := b.mine().Upload(b.context(), s.ID, u)
	if want := (belljar.UploadResult{SessionID: s.ID, BytesReceived: 2, FileCount: 2}); err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	over := files(map[string]string{"e/f": "changed", "new": "N"})
	over.Dir = "/workspace/d"
	if got, err = b.mine().Upload(b.context(), s.ID, over); err != nil || got.FileCount != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := cmp.Diff("a f\nd d\nd/e d\nd/e/f f\nd/new f\nAchangedN", b.tree(s)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	list := events.named(event.Uploaded)
	if len(list) != 2 || list[0].Kind != "tar" || list[0].Count != 2 || list[0].Files != 2 || list[1].Kind != "file" || list[0].Session.ID != s.ID {
		t.Errorf("%+v", list)
	}
	if got, err := b.mine().Upload(b.context(), s.ID, belljar.Upload{}); err != nil || got.FileCount != 0 {
		t.Errorf("nothing at all: %+v, %v", got, err)
	}
}

// After a failed upload of any kind, the workspace is unchanged, and the session continues.
func TestSessionUploadFails(t *testing.T) {
	b := newBench(t, func(o *service.Options) {
		o.Uploads = limits.Limits{Bytes: 1000}
		o.TempDir = t.TempDir()
	})
	s := b.open()
	if _, err := b.mine().Upload(b.context(), s.ID, files(map[string]string{"kept": "K", "dir/x": "X"})); err != nil {
		t.Fatal(err)
	}
	before := b.tree(s)
	away := errors.New("connection reset")
	for name, test := range map[string]struct {
		upload belljar.Upload
		code   belljar.Code
	}{
		"slips":            {packed(belljar.UploadTar, archive(t, map[string]string{"kept": "changed", "../x": "evil"})), belljar.CodePathEscapes},
		"garbage":          {packed(belljar.UploadZip, strings.NewReader("garbage")), belljar.CodeInvalidRequest},
		"too large":        {files(map[string]string{"kept": "changed", "large": strings.Repeat("x", 1000)}), belljar.CodeTooLarge},
		"breaks off":       {packed(belljar.UploadFile, io.MultiReader(strings.NewReader("x"), failing{})), belljar.CodeInvalidRequest},
		"client goes away": {belljar.Upload{Parts: func(yield func(belljar.UploadPart, error) bool) { yield(belljar.UploadPart{}, away) }}, belljar.CodeInvalidRequest},
		"file over folder": {files(map[string]string{"a": "new", "dir": "a file", "kept": "changed"}), belljar.CodeConflict},
		"folder over file": {files(map[string]string{"a": "new", "kept/x": "x"}), belljar.CodeConflict},
		"elsewhere":        {belljar.Upload{Dir: "../x", Parts: files(map[string]string{"a": "b"}).Parts}, belljar.CodePathEscapes},
		"a long folder":    {belljar.Upload{Dir: "d/" + strings.Repeat("x", 256), Parts: files(map[string]string{"a": "b"}).Parts}, belljar.CodeInvalidRequest},
		"a deep folder":    {belljar.Upload{Dir: strings.Repeat("d/", 600), Parts: files(map[string]string{"a": "b"}).Parts}, belljar.CodeInvalidRequest},
		"under a file":     {belljar.Upload{Dir: "kept/y", Parts: files(map[string]string{"a": "b"}).Parts}, belljar.CodeConflict},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := b.mine().Upload(b.context(), s.ID, test.upload); belljar.CodeOf(err) != test.code {
				t.Errorf("%v (%s), want %s", err, belljar.CodeOf(err), test.code)
			}
			if diff := cmp.Diff(before, b.tree(s)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// An interrupted upload has no effect.
func TestSessionUploadGivenUp(t *testing.T) {
	b := newBench(t)
	s := b.open()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(b.context())
	failed := make(chan error, 1)
	go func() {
		_, err := b.mine().Upload(ctx, s.ID, packed(belljar.UploadFile, r))
		failed <- err
	}()
	if _, err := w.Write([]byte("half of it")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-failed; belljar.CodeOf(err) != belljar.CodeCanceled {
		t.Errorf("%v", err)
	}
	w.CloseWithError(io.ErrUnexpectedEOF)
	if got := b.tree(s); got != "" {
		t.Errorf("left: %s", got)
	}
}

// Runs and concurrent uploads do not affect each other.
func TestSessionUploadsAtOnce(t *testing.T) {
	b := newBench(t)
	s := b.open()
	script := in(s, `echo up; while [ ! -e stop ]; do cat f0 >/dev/null 2>&1; done
		while ls -A | grep -q belljar; do :; done; echo fine`) // the temporary folder of the last upload is removed slightly after its end
	script.CapturePatterns = []string{"**"}
	run := b.start(script)
	b.waitFor(run.ID, "up")
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("f%d", i)] = fmt.Sprint(i)
	}
	done := make(chan error, 5)
	for range cap(done) {
		go func() {
			_, err := b.mine().Upload(b.context(), s.ID, files(many))
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, err := b.mine().Upload(b.context(), s.ID, files(map[string]string{"stop": ""})); err != nil {
		t.Fatal(err)
	}
	r := b.follow(run.ID)
	if r.stdout != "up\nfine\n" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	list, err := b.Artifacts.List(b.context(), run.ID)
	if err != nil || len(list) != 101 {
		t.Errorf("%d artifacts, %v", len(list), err)
	}
}

// A sandbox that dies during an upload ends the session, and the upload reports that.
func TestSessionDiesUnderUpload(t *testing.T) {
	b := newBench(t)
	s := b.open()
	r, w := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		_, err := b.mine().Upload(b.context(), s.ID, packed(belljar.UploadFile, r))
		failed <- err
	}()
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := b.fake.Remove(b.context(), s.ID); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := <-failed; belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err)
	}
	if got := b.state(s.ID, belljar.SessionCrashed); !strings.Contains(got.Message, string(runtime.ExitDestroyed)) {
		t.Errorf("%q", got.Message)
	}
}

// The end of a session does not wait for a slow client.
func TestSessionDeletedUnderUpload(t *testing.T) {
	b := newBench(t)
	s := b.open()
	r, w := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		_, err := b.mine().Upload(b.context(), s.ID, packed(belljar.UploadFile, r))
		failed <- err
	}()
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := b.mine().Delete(b.context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err)
	}
	w.Close()
}
