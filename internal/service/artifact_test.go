//go:build linux

package service_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

func read(t *testing.T, b *bench, id, path string) string {
	t.Helper()
	_, r, err := b.Artifacts.Open(t.Context(), id, path, 0)
	if err != nil {
		t.Errorf("open %s: %v", path, err)
		return ""
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("read %s: %v", path, err)
	}
	return string(text)
}

func TestUpload(t *testing.T) {
	b := newBench(t)
	req := shell("cat a dir/sub/b c; stat -c %a c; printf x >> a")
	req.Upload = archive(t, map[string]string{"a": "A", "dir/sub/b": "B", "c": "old"})
	req.Files = []belljar.InlineFile{{Path: "/workspace/c", Content: []byte("C\n"), Mode: 0o600}, {Path: "new/deep/d"}}
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "ABC\n600\n" {
		t.Errorf("stdout %q", r.stdout)
	}
}

func TestUploadFails(t *testing.T) {
	b := newBench(t)
	for name, upload := range map[string]io.Reader{
		"no archive":   strings.NewReader(strings.Repeat("garbage", 1000)),
		"escapes":      archive(t, map[string]string{"../x": "A"}),
		"broken early": io.MultiReader(strings.NewReader("x"), failing{}),
	} {
		t.Run(name, func(t *testing.T) {
			req := shell("echo ran")
			req.Upload = upload
			r := b.run(req)
			r.want(t, belljar.PhaseFailed, -1, belljar.ReasonProvisionFailed)
			if !strings.Contains(r.Message, "upload") || r.stdout != "" {
				t.Errorf("message %q, stdout %q", r.Message, r.stdout)
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestArtifacts(t *testing.T) {
	b := newBench(t)
	req := shell(`
		mkdir -p out/deep/er empty .tmp
		printf one > out/a.csv; printf two > out/deep/er/b.csv; printf no > out/c.txt; printf '' > out/nothing.csv
		ln -s /etc/passwd out/link.csv; mkfifo out/pipe.csv; printf t > .tmp/t.csv; chmod 4755 out/a.csv
		exit 5`)
	req.CapturePatterns = []string{"**/*.csv", "/workspace/out/a.csv", "none/*", "empty"}
	run := b.start(req)
	early, err := b.Artifacts.List(t.Context(), run.ID)
	if err != nil {
		t.Errorf("artifacts of a run under way: %v, %v", early, err)
	}
	r := b.follow(run.ID)
	r.want(t, belljar.PhaseFailed, 5, belljar.ReasonNonZeroExit)
	list, err := b.Artifacts.List(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if hasBytes := list[i].Size > 0; hasBytes != strings.HasPrefix(list[i].Digest, "sha256:") {
			t.Errorf("%s has digest %q", list[i].Path, list[i].Digest)
		}
		list[i].Mode, list[i].Digest = 0, ""
	}
	want := []belljar.Artifact{
		{Path: "out/a.csv", Size: 3},
		{Path: "out/deep/er/b.csv", Size: 3},
		{Path: "out/link.csv", LinkTarget: "/etc/passwd"},
		{Path: "out/nothing.csv"},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	for path, text := range map[string]string{
		"out/a.csv": "one", "/workspace/out/a.csv": "one", "./out/deep/er/b.csv": "two", "out/nothing.csv": "",
	} {
		if got := read(t, b, r.ID, path); got != text {
			t.Errorf("%s holds %q, want %q", path, got, text)
		}
	}
	for path, code := range map[string]belljar.Code{
		"out/link.csv": belljar.CodeNotFound, "out/c.txt": belljar.CodeNotFound, "out/pipe.csv": belljar.CodeNotFound,
		"../x": belljar.CodeInvalidRequest, "/etc/passwd": belljar.CodeInvalidRequest, "": belljar.CodeInvalidRequest,
	} {
		if _, rc, err := b.Artifacts.Open(t.Context(), r.ID, path, 0); belljar.CodeOf(err) != code {
			t.Errorf("open %q: %v, %v, want %s", path, rc, err, code)
		}
	}
	if r.ResourceUsage.ArtifactBytes != 6 {
		t.Errorf("%d artifact bytes, want 6", r.ResourceUsage.ArtifactBytes)
	}
	text := strings.Join(r.Warnings, "\n")
	if !strings.Contains(text, `"none/*" matched no file`) || !strings.Contains(text, `"empty/**"`) {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// Files over the cap are left out and listed; the others are captured, and the run does not fail.
func TestArtifactCap(t *testing.T) {
	b := newBench(t)
	req := shell("head -c 700000 /dev/zero > a; head -c 700000 /dev/zero > b; head -c 300000 /dev/zero > c")
	req.CapturePatterns, req.Resources.ArtifactMB = []string{"*"}, 1
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	list, err := b.Artifacts.List(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range list {
		got = append(got, strings.TrimSpace(a.Path+" "+a.Skipped))
	}
	if diff := cmp.Diff([]string{"a", "b artifact_cap_exceeded", "c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.ResourceUsage.ArtifactBytes != 1_000_000 || !strings.Contains(strings.Join(r.Warnings, "\n"), "artifact b was not captured") {
		t.Errorf("%d bytes, warnings %q", r.ResourceUsage.ArtifactBytes, r.Warnings)
	}
	if _, _, err := b.Artifacts.Open(t.Context(), r.ID, "b", 0); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("open what was left out: %v", err)
	}
}

// Artifacts that could not be made durable are kept, with a warning.
func TestArtifactsNotSynced(t *testing.T) {
	kept := newBlobs()
	kept.slip = errors.New("input/output error")
	b := newBench(t, func(o *service.Options) { o.Blobs = kept })
	req := shell("printf one > a")
	req.CapturePatterns = []string{"a"}
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if !slices.Contains(r.Warnings, "artifacts may not survive a loss of power of the server") {
		t.Errorf("warnings %q", r.Warnings)
	}
	if got := read(t, b, r.ID, "a"); got != "one" {
		t.Errorf("a holds %q", got)
	}
}
