//go:build linux

package service_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// cabinet is the files of one session, from the view of its owner.
type cabinet struct {
	belljar.Files
	*bench
	belljar.Session
}

func (b *bench) cabinet() *cabinet {
	b.t.Helper()
	return &cabinet{b.service.As(service.Local()).Files(), b, b.open()}
}

func (d *cabinet) write(path, content string) {
	d.t.Helper()
	if _, err := d.Write(d.context(), d.ID, belljar.FileWrite{Path: path, Content: strings.NewReader(content), Overwrite: true}); err != nil {
		d.t.Fatalf("write %s: %v", path, err)
	}
}

func (d *cabinet) read(path string) string {
	d.t.Helper()
	_, body, err := d.Read(d.context(), d.ID, path, 0, 0)
	if err != nil {
		d.t.Fatalf("read %s: %v", path, err)
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		d.t.Fatalf("read %s: %v", path, err)
	}
	return string(b)
}

// sh runs a script in the session.
func (d *cabinet) sh(script string) string {
	d.t.Helper()
	r := d.run(in(d.Session, script))
	r.want(d.t, belljar.PhaseCompleted, 0, "")
	return r.stdout
}

func TestFileWriteAndRead(t *testing.T) {
	events := &diary{}
	b := newBench(t, func(o *service.Options) { o.Events = events })
	d := b.cabinet()
	entry, err := d.Write(d.context(), d.ID, belljar.FileWrite{Path: "/workspace/a/b.txt", Content: strings.NewReader("content"), Size: 7, Mode: 0o600})
	if err != nil || entry.Path != "a/b.txt" || entry.Size != 7 || entry.Mode != "0600" || entry.Type != "file" || entry.MtimeUnix == 0 {
		t.Fatalf("%+v, %v", entry, err)
	}
	if got := d.read("./a/b.txt"); got != "content" {
		t.Errorf("%q", got)
	}
	_, err = d.Write(d.context(), d.ID, belljar.FileWrite{Path: "a/b.txt", Content: strings.NewReader("new")})
	if belljar.CodeOf(err) != belljar.CodeConflict || belljar.HintOf(err) == "" || d.read("a/b.txt") != "content" {
		t.Errorf("over a file: %v", err)
	}
	entry, err = d.Write(d.context(), d.ID, belljar.FileWrite{Path: "a/b.txt", Content: strings.NewReader("new"), Overwrite: true})
	if err != nil || entry.Mode != "0600" || d.read("a/b.txt") != "new" { // it keeps its mode
		t.Errorf("%+v, %v", entry, err)
	}
	for match, code := range map[string]belljar.Code{
		`"` + strings.Repeat("0", 64) + `"`: belljar.CodePrecondition, `W/` + entry.ETag: belljar.CodePrecondition, `"*"`: belljar.CodePrecondition,
		"x": belljar.CodeInvalidRequest, `"`: belljar.CodeInvalidRequest, entry.ETag + `,`: belljar.CodeInvalidRequest, `*, "x"`: belljar.CodeInvalidRequest,
	} {
		_, err := d.Write(d.context(), d.ID, belljar.FileWrite{Path: "a/b.txt", Content: strings.NewReader("lost"), IfMatch: match, Overwrite: true})
		if belljar.CodeOf(err) != code || belljar.HintOf(err) == "" || d.read("a/b.txt") != "new" {
			t.Errorf("If-Match %s: %v", match, err)
		}
	}
	for _, path := range []string{"none", "no/folder"} { // and no folder is made
		_, err := d.Write(d.context(), d.ID, belljar.FileWrite{Path: path, IfMatch: "*"})
		if belljar.CodeOf(err) != belljar.CodePrecondition {
			t.Errorf("%s: %v", path, err)
		}
	}
	// Of concurrent writers that have read the same version, one wins.
	var won atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := d.Write(d.context(), d.ID, belljar.FileWrite{Path: "a/b.txt", Content: strings.NewReader("newest"), IfMatch: `"x" ,` + entry.ETag})
			if err == nil {
				won.Add(1)
			} else if belljar.CodeOf(err) != belljar.CodePrecondition {
				t.Error(err)
			}
		})
	}
	if all.Wait(); won.Load() != 1 {
		t.Errorf("%d writers have won", won.Load())
	}
	if entry, err = d.Write(d.context(), d.ID, belljar.FileWrite{Path: "a/b.txt", Content: strings.NewReader("new"), IfMatch: "*"}); err != nil || d.sh("test ! -e no && echo none") != "none\n" {
		t.Errorf("%+v, %v", entry, err)
	}
	if list := events.named(event.Uploaded); len(list) != 4 || list[0].Count != 7 || list[0].Files != 1 || list[0].Kind != "file" || list[0].Session.ID != d.ID {
		t.Errorf("%+v", list)
	}
	for _, c := range []struct {
		offset, limit int64
		want          string
	}{{0, 0, "new"}, {1, 0, "ew"}, {0, 2, "ne"}, {1, 1, "e"}, {3, 0, ""}, {9, 9, ""}} {
		entry, body, err := d.Read(d.context(), d.ID, "a/b.txt", c.offset, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		var viaReader bytes.Buffer
		if _, err := viaReader.ReadFrom(iotest.OneByteReader(body)); err != nil || viaReader.String() != c.want || entry.Size != 3 {
			t.Errorf("%d+%d: %q of %+v, %v", c.offset, c.limit, viaReader.String(), entry, err)
		}
		body.Close()
		body.Close()
	}
}

// After a failed write of any kind, the existing file stays.
func TestFileWriteFails(t *testing.T) {
	d := newBench(t, limited(func(l *belljar.Limits) { l.WorkspaceMB = 2 })).cabinet()
	d.write("kept", "before")
	d.write("dir/x", "")
	mishap := errors.New("the line is cut")
	for name, c := range map[string]struct {
		write belljar.FileWrite
		code  belljar.Code
	}{
		"breaks off":     {belljar.FileWrite{Path: "kept", Content: io.MultiReader(strings.NewReader("after"), iotest.ErrReader(mishap))}, belljar.CodeInvalidRequest},
		"ends early":     {belljar.FileWrite{Path: "kept", Content: io.MultiReader(strings.NewReader("after"), iotest.ErrReader(io.ErrUnexpectedEOF))}, belljar.CodeInvalidRequest},
		"is shorter":     {belljar.FileWrite{Path: "kept", Content: strings.NewReader("after"), Size: 6}, belljar.CodeInvalidRequest},
		"is longer":      {belljar.FileWrite{Path: "kept", Content: strings.NewReader("after"), Size: 4}, belljar.CodeInvalidRequest},
		"too large":      {belljar.FileWrite{Path: "kept", Content: strings.NewReader("after"), Size: 1 << 40}, belljar.CodeTooLarge},
		"setuid":         {belljar.FileWrite{Path: "kept", Content: strings.NewReader("after"), Mode: 0o4755}, belljar.CodeInvalidRequest},
		"a folder":       {belljar.FileWrite{Path: "dir", Content: strings.NewReader("after")}, belljar.CodeConflict},
		"a folder's":     {belljar.FileWrite{Path: "new/", Content: strings.NewReader("after")}, belljar.CodeInvalidRequest},
		"below a file":   {belljar.FileWrite{Path: "kept/x", Content: strings.NewReader("after")}, belljar.CodeConflict},
		"the workspace":  {belljar.FileWrite{Path: "."}, belljar.CodeInvalidRequest},
		"no path":        {belljar.FileWrite{}, belljar.CodeInvalidRequest},
		"elsewhere":      {belljar.FileWrite{Path: "../kept"}, belljar.CodePathEscapes},
		"larger than it": {belljar.FileWrite{Path: "kept", Content: io.LimitReader(torrent{}, 3<<20)}, belljar.CodeTooLarge},
	} {
		c.write.Overwrite = true
		if _, err := d.Write(d.context(), d.ID, c.write); belljar.CodeOf(err) != c.code {
			t.Errorf("%s: %v (%s), want %s", name, err, belljar.CodeOf(err), c.code)
		}
	}
	d.eventually("nothing is left", func() bool { // the agent removes a partial file when it detects the end of its stream
		return d.sh("find . -type f ! -path './.tmp*' | sort; cat kept") == "./dir/x\n./kept\nbefore"
	})
}

// torrent is an endless stream of x.
type torrent struct{}

func (torrent) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestFileBatch(t *testing.T) {
	d := newBench(t).cabinet()
	file := func(path, content string) belljar.FileWrite {
		return belljar.FileWrite{Path: path, Content: strings.NewReader(content)}
	}
	entries, err := d.WriteAll(d.context(), d.ID, []belljar.FileWrite{file("a/1", "one"), {Path: "/workspace/a/2", Mode: 0o755}, file("3", "three")})
	if err != nil || len(entries) != 3 || entries[0].Path != "a/1" || entries[0].Size != 3 || entries[1].Mode != "0755" {
		t.Fatalf("%+v, %v", entries, err)
	}
	for i, want := range entries {
		got, err := d.Stat(d.context(), d.ID, want.Path)
		got.MtimeNs = 0 // for lists only
		if err != nil || got != want {
			t.Errorf("%d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	if none, err := d.WriteAll(d.context(), d.ID, nil); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
	over := func(w belljar.FileWrite) belljar.FileWrite {
		w.Overwrite = true
		return w
	}
	many := make([]belljar.FileWrite, 1000+1)
	for i := range many {
		many[i] = file(fmt.Sprint("m", i), "")
	}
	for name, c := range map[string]struct {
		list []belljar.FileWrite
		code belljar.Code
	}{
		"one exists":     {[]belljar.FileWrite{file("new", "x"), file("3", "x")}, belljar.CodeConflict},
		"one escapes":    {[]belljar.FileWrite{file("new", "x"), file("../3", "x")}, belljar.CodePathEscapes},
		"one is twice":   {[]belljar.FileWrite{file("new", "x"), file("./new", "x")}, belljar.CodeInvalidRequest},
		"one is broken":  {[]belljar.FileWrite{file("new", "x"), {Path: "y", Content: iotest.ErrReader(io.ErrUnexpectedEOF)}}, belljar.CodeInvalidRequest},
		"mixed":          {[]belljar.FileWrite{file("new", "x"), over(file("3", "x"))}, belljar.CodeInvalidRequest},
		"file on folder": {[]belljar.FileWrite{over(file("new", "x")), over(file("a", "x"))}, belljar.CodeConflict},
		"in each other":  {[]belljar.FileWrite{file("new", "x"), file("new/er", "x")}, belljar.CodeConflict},
		"too many":       {many, belljar.CodeTooLarge},
		"too large":      {[]belljar.FileWrite{file("new", "x"), {Path: "y", Content: io.LimitReader(torrent{}, belljar.MaxBatchBytes)}}, belljar.CodeTooLarge},
	} {
		if _, err := d.WriteAll(d.context(), d.ID, c.list); belljar.CodeOf(err) != c.code {
			t.Errorf("%s: %v (%s), want %s", name, err, belljar.CodeOf(err), c.code)
		}
	}
	for path, list := range map[string][]belljar.FileWrite{
		"3": {file("new", "x"), file("3", "x")}, "a": {over(file("new", "x")), over(file("a", "x"))}, "a/1": {file("new", "x"), file("a/1/x", "x")},
	} {
		var e *belljar.Error
		if _, err := d.WriteAll(d.context(), d.ID, list); !errors.As(err, &e) || e.Details["path"] != path || !strings.Contains(e.Message, strconv.Quote(path)) {
			t.Errorf("%s is in the way: %+v", path, err)
		}
	}
	list, err := d.WriteAll(d.context(), d.ID, []belljar.FileWrite{over(file("a/1", "uno")), over(file("a/2", "two")), over(file("4", "four"))})
	if err != nil || list[0].Mode != "0644" || list[1].Mode != "0755" || list[2].Mode != "0644" {
		t.Errorf("%+v, %v", list, err)
	}
	got, err := d.Stat(d.context(), d.ID, "a/2")
	got.MtimeNs = 0
	if err != nil || got != list[1] { // it keeps its mode
		t.Errorf("%+v, %v, want %+v", got, err, list[1])
	}
	d.eventually("nothing is left of the others", func() bool {
		return d.sh("find . -type f ! -path './.tmp*' | sort; cat a/1 3 4") == "./3\n./4\n./a/1\n./a/2\nunothreefour"
	})
}

func TestFileChanges(t *testing.T) {
	d := newBench(t).cabinet()
	ctx := d.context()
	d.write("a", "A")
	d.write("b", "B")
	d.write("dir/x", "X")
	codes := func(what string, err error, want belljar.Code) {
		t.Helper()
		if belljar.CodeOf(err) != want {
			t.Errorf("%s: %v (%s), want %s", what, err, belljar.CodeOf(err), want)
		}
	}
	codes("mkdir", d.Mkdir(ctx, d.ID, "m/n", 0o750), "")
	codes("mkdir again", d.Mkdir(ctx, d.ID, "m/n", 0), "")
	codes("mkdir over a file", d.Mkdir(ctx, d.ID, "a", 0), belljar.CodeConflict)
	codes("mkdir below a file", d.Mkdir(ctx, d.ID, "a/b", 0), belljar.CodeConflict)
	codes("mkdir sticky", d.Mkdir(ctx, d.ID, "s", 0o1777), belljar.CodeInvalidRequest)
	if e, err := d.Stat(ctx, d.ID, "m/n"); err != nil || e.Mode != "0750" || e.Type != "dir" {
		t.Errorf("%+v, %v", e, err)
	}
	codes("rename over", d.Rename(ctx, d.ID, "a", "b", false), belljar.CodeConflict)
	codes("rename nothing", d.Rename(ctx, d.ID, "none", "new/c", true), belljar.CodeNotFound)
	if _, err := d.Stat(ctx, d.ID, "new"); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("a folder was made for nothing: %v", err)
	}
	into := d.Rename(ctx, d.ID, "dir", "dir/sub", true)
	codes("rename into itself", into, belljar.CodeInvalidRequest)
	if !strings.Contains(fmt.Sprint(into), "into itself") {
		t.Errorf("rename into itself: %v", into)
	}
	codes("rename over a folder", d.Rename(ctx, d.ID, "a", "dir", true), belljar.CodeConflict)
	codes("rename over a full folder", d.Rename(ctx, d.ID, "m", "dir", true), belljar.CodeConflict)
	codes("rename", d.Rename(ctx, d.ID, "a", "b", true), "")
	codes("rename", d.Rename(ctx, d.ID, "dir", "deep/er/dir", false), "")
	if d.read("b") != "A" || d.read("deep/er/dir/x") != "X" {
		t.Error("renamed wrongly")
	}
	codes("delete a full folder", d.Delete(ctx, d.ID, "deep", false), belljar.CodeConflict)
	codes("delete the workspace", d.Delete(ctx, d.ID, "/workspace/.", true), belljar.CodeInvalidRequest)
	codes("delete", d.Delete(ctx, d.ID, "deep", true), "")
	codes("delete again", d.Delete(ctx, d.ID, "deep", true), belljar.CodeNotFound)
	codes("delete an empty folder", d.Delete(ctx, d.ID, "m/n", false), "")
	codes("delete a file", d.Delete(ctx, d.ID, "b", false), "")
	if got := d.sh("ls"); got != "m\n" {
		t.Errorf("%q", got)
	}
}

// shut is a writer that accepts nothing.
type shut struct{}

func (shut) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// everyOperation calls every operation on files.
func everyOperation(t *testing.T, f belljar.Files, id string) map[string]error {
	ctx := t.Context()
	errs := map[string]error{}
	_, errs["write"] = f.Write(ctx, id, belljar.FileWrite{Path: "x", Content: strings.NewReader("x")})
	_, errs["batch"] = f.WriteAll(ctx, id, []belljar.FileWrite{{Path: "x"}})
	_, body, err := f.Read(ctx, id, "x", 0, 0)
	if errs["read"] = err; err == nil {
		body.Close()
	}
	_, errs["stat"] = f.Stat(ctx, id, "x")
	_, errs["list"] = f.List(ctx, id, belljar.FileQuery{})
	errs["mkdir"] = f.Mkdir(ctx, id, "x", 0)
	errs["rename"] = f.Rename(ctx, id, "x", "y", false)
	errs["delete"] = f.Delete(ctx, id, "x", false)
	_, errs["search"] = f.Search(ctx, id, belljar.FileSearch{Name: "*"})
	errs["archive"] = f.Archive(ctx, id, "", belljar.UploadTar, io.Discard)
	_, errs["space"] = f.Space(ctx, id)
	return errs
}

// Sessions that do not exist, belong to another user, or have ended.
func TestFilesOfOtherSessions(t *testing.T) {
	b := newBench(t)
	d := b.cabinet()
	d.write("x", "private")
	bob := b.service.As(belljar.Caller{ID: "bob", Role: belljar.RoleUser}).Files()
	for name, err := range everyOperation(t, bob, d.ID) {
		if belljar.CodeOf(err) != belljar.CodeNotFound {
			t.Errorf("%s of another user's session: %v", name, err)
		}
	}
	for name, err := range everyOperation(t, d.Files, belljar.NewID()) {
		if belljar.CodeOf(err) != belljar.CodeNotFound {
			t.Errorf("%s of no session: %v", name, err)
		}
	}
	if err := b.mine().Delete(b.context(), d.ID); err != nil {
		t.Fatal(err)
	}
	for name, err := range everyOperation(t, d.Files, d.ID) {
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeConflict || e.Details["state"] != "closed" || e.Hint == "" {
			t.Errorf("%s of a closed session: %v", name, err)
		}
	}
}

// The end of a session waits neither for a slow body, nor for a slow reader.
func TestFilesEndWithTheirSession(t *testing.T) {
	b := newBench(t)
	d := b.cabinet()
	r, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		_, err := d.Write(b.context(), d.ID, belljar.FileWrite{Path: "x", Content: r})
		wrote <- err
	}()
	if _, err := w.Write([]byte("half of it")); err != nil {
		t.Fatal(err)
	}
	d.write("large", strings.Repeat("x", 8<<20))
	_, body, err := d.Read(b.context(), d.ID, "large", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	deleted := make(chan error, 1)
	go func() { deleted <- b.mine().Delete(b.context(), d.ID) }()
	if err := <-wrote; belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("write: %v", err)
	}
	w.CloseWithError(io.ErrClosedPipe)
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, body); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("read: %v", err)
	}
	body.Close()
}

// Using files keeps a session alive, and reading one does so for its whole duration.
func TestFilesKeepASession(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock, o.SessionTTL = clock, time.Hour })
	d := b.cabinet()
	for range 3 {
		clock.pass(50 * time.Minute)
		d.write("x", "content")
	}
	_, body, err := d.Read(b.context(), d.ID, "x", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	clock.pass(2 * time.Hour)
	if s, err := b.mine().Get(b.context(), d.ID); err != nil || s.State != belljar.SessionActive {
		t.Errorf("while a file is read: %+v, %v", s, err)
	}
	body.Close()
	clock.pass(59 * time.Minute)
	if got := d.read("x"); got != "content" {
		t.Errorf("%q", got)
	}
	clock.pass(61 * time.Minute)
	if _, err := d.Stat(b.context(), d.ID, "x"); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Error(err)
	}
}

// paused is a client that reads an archive only when it is allowed to.
type paused struct {
	begun chan<- struct{}
	read  <-chan struct{}
}

func (p paused) Write(b []byte) (int, error) {
	p.begun <- struct{}{}
	<-p.read
	return len(b), nil
}

// A user can receive few archives at once: each holds its names in the server's memory. Some more wait, and the rest is refused.
func TestArchivesAtOnce(t *testing.T) {
	d := newBench(t).cabinet()
	d.write("file", "content")
	const most, waiting = 4, 64
	begun, read, done := make(chan struct{}, 1000), make(chan struct{}), make(chan error, 100)
	for range most + waiting + 1 {
		go func() { done <- d.Archive(d.context(), d.ID, "", belljar.UploadTar, paused{begun, read}) }()
	}
	for range most {
		<-begun
	}
	if err := <-done; belljar.CodeOf(err) != belljar.CodeRateLimited {
		t.Errorf("the last one: %v", err)
	}
	if len(begun) > 0 {
		t.Error("one archive too many")
	}
	close(read)
	for range most + waiting {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A hundred concurrent clients each get their own content.
func TestFilesAtOnce(t *testing.T) {
	d := newBench(t).cabinet()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			path := fmt.Sprintf("d%d/%d", i%5, i)
			d.write(path, path)
			if got := d.read(path); got != path {
				t.Errorf("%s reads %q", path, got)
			}
			if _, err := d.List(d.context(), d.ID, belljar.FileQuery{Recursive: true}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
