//go:build linux

package client_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/apitest"
)

func session(t *testing.T, c belljar.Service) belljar.Session {
	t.Helper()
	s, err := c.Sessions().Create(within(t), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inside runs a script in a session.
func inside(id, script string) belljar.RunRequest {
	req := shell(script)
	req.BaseImage, req.SessionID = "", id
	return req
}

func parts(list ...belljar.UploadPart) iter.Seq2[belljar.UploadPart, error] {
	return func(yield func(belljar.UploadPart, error) bool) {
		for _, p := range list {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func plain(name, content string) belljar.UploadPart {
	return belljar.UploadPart{Name: name, Format: belljar.UploadFile, Body: strings.NewReader(content)}
}

func TestSession(t *testing.T) {
	c := newWorld(t, nil).client()
	s := session(t, c)
	if s.State != belljar.SessionActive {
		t.Errorf("%+v", s)
	}
	finish(t, c, inside(s.ID, "echo kept >file"))
	if _, out := finish(t, c, inside(s.ID, "cat file")); out.Stdout != "kept\n" {
		t.Errorf("%+v", out)
	}
	page, err := c.Sessions().List(within(t), belljar.SessionQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != s.ID {
		t.Errorf("%+v, %v", page, err)
	}
	for range 2 {
		if err := c.Sessions().Delete(within(t), s.ID); err != nil {
			t.Error(err)
		}
	}
	if s, err = c.Sessions().Get(within(t), s.ID); err != nil || s.State != belljar.SessionClosed {
		t.Errorf("%+v, %v", s, err)
	}
	if page, err = c.Sessions().List(within(t), belljar.SessionQuery{}); err != nil || len(page.Items) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	if page, err = c.Sessions().List(within(t), belljar.SessionQuery{All: true}); err != nil || len(page.Items) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
}

// TestUpload: files arrive unchanged under their names, archives unpacked.
func TestUpload(t *testing.T) {
	c := newWorld(t, nil).client()
	s := session(t, c)
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	w, err := z.Create("from/zip.txt")
	if err == nil {
		_, err = io.WriteString(w, "zipped")
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"plain.txt": "one", "a/b/c.txt": "two", "not an archive.zip": "three", "x/y.TAR.gz": "four", "z.tgz": "five", "q.tar": "",
		`quo"te.txt`: "six", "ümläut ☃.txt": "seven", "semi;colon%41.txt": "eight",
	}
	var list []belljar.UploadPart
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, plain(name, files[name]))
	}
	list = append(list, belljar.UploadPart{Format: belljar.UploadTar, Body: archive(t, map[string]string{"from/tar.txt": "tarred"})},
		belljar.UploadPart{Format: belljar.UploadZip, Body: &zipped})
	result, err := c.Sessions().Upload(within(t), s.ID, belljar.Upload{Dir: "in", Parts: parts(list...)})
	if err != nil || result.FileCount != len(list) || result.SessionID != s.ID {
		t.Fatalf("%+v, %v", result, err)
	}
	files["from/tar.txt"], files["from/zip.txt"] = "tarred", "zipped"
	for name, content := range files {
		req := inside(s.ID, "")
		req.Command = []string{"cat", "in/" + name}
		if _, out := finish(t, c, req); out.Stdout != content {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

func TestUploadFails(t *testing.T) {
	c := newWorld(t, nil, func(o *service.Options) { o.Uploads.Bytes = 8 << 20 }).client()
	s := session(t, c)
	broken := errors.New("the disk is broken")
	for name, test := range map[string]struct {
		id    string
		parts iter.Seq2[belljar.UploadPart, error]
		code  belljar.Code
	}{
		"no session":  {belljar.NewID(), parts(plain("a", strings.Repeat("x", 4<<20))), belljar.CodeNotFound},
		"two lines":   {s.ID, parts(plain("ok", "x"), plain("two\nlines", "x")), belljar.CodeInvalidRequest}, // a form would change the name
		"a bad path":  {s.ID, parts(plain("ok", "x"), plain("../a", "x")), belljar.CodeInvalidRequest},
		"a bad zip":   {s.ID, parts(plain("ok", "x"), plain("../a.zip", "x")), ""},
		"too much":    {s.ID, parts(plain("a", strings.Repeat("x", 8<<20+1))), belljar.CodeTooLarge},
		"unreadable":  {s.ID, parts(plain("ok", "x"), belljar.UploadPart{Name: "a", Body: io.MultiReader(strings.NewReader("x"), failing{broken})}), belljar.CodeInvalidRequest},
		"no more":     {s.ID, func(yield func(belljar.UploadPart, error) bool) { yield(belljar.UploadPart{}, broken) }, belljar.CodeInvalidRequest},
		"no tar file": {s.ID, parts(plain("ok", "x"), belljar.UploadPart{Format: belljar.UploadTar, Body: strings.NewReader(strings.Repeat("no", 600))}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := c.Sessions().Upload(within(t), test.id, belljar.Upload{Parts: test.parts})
			if err == nil || result != (belljar.UploadResult{}) {
				t.Fatalf("%+v, %v", result, err)
			}
			if test.code != "" {
				want(t, err, test.code)
			}
			if name == "unreadable" && !errors.Is(err, broken) {
				t.Errorf("%v hides the reason", err)
			}
			if _, out := finish(t, c, inside(s.ID, "ls")); out.Stdout != "" {
				t.Errorf("something is left: %q", out.Stdout)
			}
		})
	}
}

// A run whose files need a separate session waits until an operator has approved that session.
func TestStartAwaitsApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.Approval = []string{"cpu>0.5"}
	})
	c := w.client(func(o *client.Options) {
		o.Asked = func(a belljar.Approval) {
			admin := w.service.As(belljar.Caller{ID: "root", Role: belljar.RoleAdmin}).Admin()
			if _, err := admin.Decide(within(t), a.ID, belljar.ApprovalDecision{Decision: belljar.DecisionApprove}); err != nil {
				t.Error(err)
			}
		}
	})
	req := shell("wc -c <a.txt")
	req.Upload = archive(t, map[string]string{"a.txt": strings.Repeat("x", 2<<20)})
	if run, out := finish(t, c, req); out.Stdout != "2097152\n" || run.SessionID == "" {
		t.Errorf("%+v\n%+v", run, out)
	}
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestStart: small files are sent in the request, others through a temporary session that ends with the run.
func TestStart(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
	for name, test := range map[string]struct {
		files  map[string]string
		script string
		want   string
		staged bool
	}{
		"small":   {map[string]string{"a.txt": "hello ", "d/b.txt": "jar"}, "cat a.txt d/b.txt", "hello jar", false},
		"large":   {map[string]string{"a.txt": large, "b.zip": "as it is"}, "wc -c <a.txt; cat b.zip", "3145728\nas it is", true},
		"nothing": {nil, "ls", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			c := w.client()
			req := shell(test.script)
			req.Upload = archive(t, test.files)
			req.CapturePatterns = []string{"*"}
			run, out := finish(t, c, req)
			if out.Stdout != test.want || (run.SessionID != "") != test.staged {
				t.Errorf("%+v\n%+v", run, out)
			}
			list, err := c.Artifacts().List(within(t), run.ID)
			if err != nil || len(test.files) > 0 && len(list) == 0 {
				t.Errorf("%v, %v", list, err)
			}
			if err := c.Close(); err != nil { // no session is left over even if the client is closed immediately
				t.Fatal(err)
			}
			page, err := w.client().Sessions().List(within(t), belljar.SessionQuery{})
			if err != nil || len(page.Items) > 0 {
				t.Errorf("%+v, %v", page, err)
			}
			if _, err := c.Artifacts().List(within(t), run.ID); err != nil {
				t.Errorf("the artifacts went with the session: %v", err)
			}
		})
	}
}

// TestStartInImageWithFolder: a program starts in the folder of its files, however large they are, even in an image with another working directory.
func TestStartInImageWithFolder(t *testing.T) {
	ref, image := apitest.WithImage(t, map[string]any{"WorkingDir": "/usr"})
	c := newWorld(t, nil, image).client()
	s, err := c.Sessions().Create(within(t), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: belljar.SpecVersion, BaseImage: ref}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", s.ID} {
		for _, size := range []int{10, 3 << 20} {
			req := inside(id, "wc -c <a")
			if id == "" {
				req.BaseImage = ref
			}
			req.Upload = archive(t, map[string]string{"a": strings.Repeat("x", size)})
			if _, out := finish(t, c, req); strings.TrimSpace(out.Stdout) != fmt.Sprint(size) {
				t.Errorf("session %q, %d bytes: %+v", id, size, out)
			}
		}
	}
}

// TestStartInSession: files that do not fit into the request are sent to its session.
func TestStartInSession(t *testing.T) {
	c := newWorld(t, nil).client()
	s := session(t, c)
	for _, size := range []int{10, 3 << 20} {
		req := inside(s.ID, "wc -c <a; rm a")
		req.Upload = archive(t, map[string]string{"a": strings.Repeat("x", size)})
		if run, out := finish(t, c, req); strings.TrimSpace(out.Stdout) != fmt.Sprint(size) || run.SessionID != s.ID {
			t.Errorf("%+v\n%+v", run, out)
		}
	}
	if s, err := c.Sessions().Get(within(t), s.ID); err != nil || s.State != belljar.SessionActive {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestStartFails(t *testing.T) {
	w := newWorld(t, nil, func(o *service.Options) { o.Uploads.Bytes = 8 << 20 })
	c := w.client()
	broken := errors.New("the disk is broken")
	req := shell("true")
	req.Upload = failing{broken}
	_, err := c.Runs().Start(within(t), req)
	if want(t, err, belljar.CodeInvalidRequest); !errors.Is(err, broken) {
		t.Errorf("%v hides the reason", err)
	}
	req = shell("true") // the API does not accept links inline
	req.Upload = archive(t, map[string]string{"a": "x", "b": "-> a"})
	_, err = c.Runs().Start(within(t), req)
	want(t, err, belljar.CodeInvalidRequest)
	req = shell("true")
	req.Upload = archive(t, map[string]string{"a": strings.Repeat("x", 2<<20)})
	req.CapturePatterns = []string{"../x"} // the run is refused after its session is created
	_, err = c.Runs().Start(within(t), req)
	want(t, err, belljar.CodeInvalidRequest)
	req = shell("true")
	req.Upload = archive(t, map[string]string{"a": strings.Repeat("x", 9<<20)}) // the server takes 8 MiB
	_, err = c.Runs().Start(within(t), req)
	if want(t, err, belljar.CodeTooLarge); !strings.Contains(belljar.HintOf(err), "session cp") {
		t.Errorf("the hint of %v is %q", err, belljar.HintOf(err))
	}
	page, err := c.Sessions().List(within(t), belljar.SessionQuery{})
	if err != nil || len(page.Items) > 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// TestStartTwice: a repeated request makes only one run, with and without files.
func TestStartTwice(t *testing.T) {
	c := newWorld(t, nil).client()
	make := func() belljar.RunRequest {
		req := shell("wc -c <a; cat")
		req.IdempotencyKey = "once"
		req.Upload = archive(t, map[string]string{"a": strings.Repeat("x", 2<<20)})
		req.Input = strings.NewReader("input")
		return req
	}
	first, out := finish(t, c, make())
	if out.Stdout != "2097152\ninput" {
		t.Errorf("%+v\n%+v", first, out)
	}
	second, out := finish(t, c, make())
	if second.ID != first.ID || out.Stdout != "2097152\ninput" {
		t.Errorf("%s and %s: %+v", first.ID, second.ID, out)
	}
}
