//go:build linux

package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/service"
)

func TestRun(t *testing.T) {
	c := newWorld(t, nil).client()
	run, out := finish(t, c, shell("echo out; echo err >&2; exit 3"))
	if run.Phase != belljar.PhaseFailed || run.ExitCode == nil || *run.ExitCode != 3 || run.ReasonCode != belljar.ReasonNonZeroExit {
		t.Errorf("%+v", run)
	}
	if out.Stdout != "out\n" || out.Stderr != "err\n" {
		t.Errorf("%+v", out)
	}
	page, err := c.Runs().List(within(t), belljar.RunQuery{Phase: belljar.PhaseFailed, Limit: 1})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != run.ID || page.Total != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	if err := c.Runs().Cancel(within(t), run.ID); err != nil {
		t.Errorf("cancelling what has ended: %v", err)
	}
}

func TestCancel(t *testing.T) {
	c := newWorld(t, nil).client()
	run, err := c.Runs().Start(within(t), shell("echo ready; exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range c.Runs().Frames(within(t), run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == belljar.FrameStdout {
			if err := c.Runs().Cancel(within(t), run.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if run = ended(t, c, run.ID); run.Phase != belljar.PhaseKilled || run.ReasonCode != belljar.ReasonCanceledByUser {
		t.Errorf("%+v", run)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t, nil)
	c := w.client()
	run, _ := finish(t, c, shell("true"))
	other := w.client(as("bob"))

	_, err := other.Runs().Get(within(t), run.ID)
	want(t, err, belljar.CodeNotFound)
	want(t, endOfLog(t, other, run.ID), belljar.CodeNotFound)
	_, err = other.Runs().Stdin(within(t), run.ID)
	want(t, err, belljar.CodeNotFound)
	_, err = c.Runs().Stdin(within(t), run.ID)
	want(t, err, belljar.CodeConflict)
	_, err = other.Artifacts().List(within(t), run.ID)
	want(t, err, belljar.CodeNotFound)
	_, err = w.client(as("nobody")).Node().Me(within(t))
	want(t, err, belljar.CodeUnauthorized)
	_, err = c.Admin().Runs(within(t), belljar.RunQuery{})
	want(t, err, belljar.CodeForbidden)
	_, err = c.Runs().Start(within(t), belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.1"}})
	if e := want(t, err, belljar.CodeInvalidRequest); e.Details["field"] == nil {
		t.Errorf("%+v", e)
	}
}

func TestOptions(t *testing.T) {
	for _, opts := range []client.Options{
		{}, {URL: "127.0.0.1:8080"}, {URL: "ftp://host"}, {URL: "http://user:secret@host"}, {URL: "user:secret@host"}, {URL: "http://user:secret@host:port"},
		{URL: "http://host?x"}, {URL: "unix:"},
		{URL: "http://host", APIKey: "a", Bearer: "b"}, {URL: "http://host", APIKey: "a\nb"},
	} {
		_, err := client.New(opts)
		if e := want(t, err, belljar.CodeInvalidRequest); strings.Contains(e.Error(), "secret") {
			t.Error(e)
		}
	}
}

// A key that was read from a file ends with a line break.
func TestKeyOfAFile(t *testing.T) {
	c := newWorld(t, nil).client(func(o *client.Options) { o.APIKey += "\n" })
	if me, err := c.Node().Me(within(t)); err != nil || me.UserID != "alice" {
		t.Errorf("%q, %v", me.UserID, err)
	}
}

func TestTail(t *testing.T) {
	c := newWorld(t, nil, func(o *service.Options) { o.Heartbeat = 20 * time.Millisecond }).client()
	req := shell("echo before; read x; echo after")
	req.Interactive = true
	run, err := c.Runs().Start(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range c.Runs().Frames(within(t), run.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == belljar.FrameStdout {
			break
		}
	}
	in, err := c.Runs().Stdin(within(t), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for f, err := range c.Runs().Frames(within(t), run.ID, belljar.Tail) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case f.Type == belljar.FrameStdout:
			got = append(got, string(f.Output))
		case f.Event == belljar.EventEnd:
			got = append(got, "end")
		}
		if in != nil { // the first heartbeat: the tail has started
			write(t, in)
			in = nil
		}
	}
	if !slices.Equal(got, []string{"after\n", "end"}) {
		t.Errorf("%q", got)
	}
	got = nil
	for f, err := range c.Runs().Frames(within(t), run.ID, belljar.Tail) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f.Event)
	}
	if !slices.Equal(got, []string{belljar.EventEnd}) {
		t.Errorf("the tail of what has ended: %q", got)
	}
}

func write(t *testing.T, in belljar.Stdin) {
	t.Helper()
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

func TestFramesTwice(t *testing.T) {
	c := newWorld(t, nil).client()
	run, _ := finish(t, c, shell("echo one; echo two"))
	all := c.Runs().Frames(within(t), run.ID, 1)
	var counts [2]int
	for i := range counts {
		for f, err := range all {
			if err != nil {
				t.Fatal(err)
			}
			if counts[i]++; f.Seq != uint64(counts[i]) {
				t.Fatalf("frame %d has seq %d", counts[i], f.Seq)
			}
		}
	}
	if counts[0] != counts[1] || counts[0] < 3 {
		t.Errorf("%v frames", counts)
	}
	for f := range c.Runs().Frames(within(t), run.ID, uint64(counts[0]+1)) {
		t.Errorf("behind the end: %+v", f)
	}
}

func TestArtifacts(t *testing.T) {
	c := newWorld(t, nil).client()
	req := shell(`mkdir -p out/deep && printf 0123456789 >"out/deep/a b#?%.txt" && ln -s /etc/passwd out/link`)
	req.CapturePatterns = []string{"out/**"}
	run, _ := finish(t, c, req)
	list, err := c.Artifacts().List(within(t), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(a belljar.Artifact) bool { return a.Path == "out/deep/a b#?%.txt" })
	if i < 0 {
		t.Fatalf("%+v", list)
	}
	for offset, wanted := range map[int64]string{0: "0123456789", 4: "456789", 10: "", 99: ""} {
		a, body, err := c.Artifacts().Open(within(t), run.ID, list[i].Path, offset)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil || string(raw) != wanted || a.Size != 10 {
			t.Errorf("from %d: %q %+v %v", offset, raw, a, err)
		}
	}
	_, _, err = c.Artifacts().Open(within(t), run.ID, "out/none", 5)
	want(t, err, belljar.CodeNotFound)
	_, _, err = c.Artifacts().Open(within(t), run.ID, "../x", 0)
	want(t, err, belljar.CodeInvalidRequest)
	if _, body, err := c.Artifacts().Open(within(t), run.ID, "out/link", 0); err == nil {
		body.Close()
		t.Error("a link was opened")
	}
}

// artifactRequests counts requests for artifacts, and changes the responses.
type artifactRequests struct {
	n      atomic.Int32
	change func(*http.Response)
}

func (a *artifactRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/artifacts") {
		a.n.Add(1)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && a.change != nil {
		a.change(resp)
	}
	return resp, err
}

// TestArtifactIsOneRequest: an artifact is opened without a list of all, unless the response leaves out what the list has.
func TestArtifactIsOneRequest(t *testing.T) {
	w := newWorld(t, nil)
	req := shell(`mkdir out && cd out && printf 0123456789 >a && : >b && seq 2000 >c && chmod 0640 a && chmod 0755 c`)
	req.CapturePatterns = []string{"out/**"}
	run, _ := finish(t, w.client(), req)
	for what, c := range map[string]struct {
		change   func(*http.Response)
		requests int32 // for three artifacts, after a list
	}{
		"a server":                {nil, 3},
		"an older server":         {func(r *http.Response) { r.Header.Del("Belljar-File-Mode") }, 6},
		"a proxy without lengths": {func(r *http.Response) { r.ContentLength = -1 }, 6},
	} {
		seen := &artifactRequests{change: c.change}
		service := w.client(func(o *client.Options) { o.HTTP = &http.Client{Transport: seen} })
		list, err := service.Artifacts().List(within(t), run.ID)
		if err != nil || len(list) != 3 {
			t.Fatalf("%s: %+v, %v", what, list, err)
		}
		seen.n.Store(0)
		for _, listed := range list {
			opened, body, err := service.Artifacts().Open(within(t), run.ID, listed.Path, 0)
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, body)
			if err := errors.Join(err, body.Close()); err != nil || n != listed.Size || opened != listed {
				t.Errorf("%s: %+v with %d bytes, want %+v; %v", what, opened, n, listed, err)
			}
		}
		if n := seen.n.Load(); n != c.requests {
			t.Errorf("%s: %d requests, want %d", what, n, c.requests)
		}
	}
}

func TestNode(t *testing.T) {
	w := newWorld(t, nil)
	me, err := w.client().Node().Me(within(t))
	if err != nil || me.UserID != "alice" || me.Role != belljar.RoleUser || me.PolicyHash == "" {
		t.Errorf("%+v, %v", me, err)
	}
	found, err := w.client().Node().Runtimes(within(t))
	if err != nil || len(found.Runtimes) != 1 || found.Runtimes[0].Name != "fake" || found.StoreMode != "memory" {
		t.Errorf("%+v, %v", found, err)
	}
	presets, err := w.client().Node().NetworkPresets(within(t), "")
	if err != nil || len(presets) != len(belljar.EgressPresets()) || presets[0].Name != "pip" || presets[0].Enabled || presets[0].Reason == "" {
		t.Errorf("%+v, %v", presets, err)
	}
}

func TestAdmin(t *testing.T) {
	w := newWorld(t, nil)
	run, _ := finish(t, w.client(), shell("true"))
	root := w.client(as("root"))
	page, err := root.Admin().Runs(within(t), belljar.RunQuery{UserID: "alice"})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != run.ID {
		t.Errorf("%+v, %v", page, err)
	}
	entries, err := root.Admin().Idempotency(within(t), belljar.KeyQuery{Endpoint: "runs"})
	if err != nil || len(entries) != 1 || entries[0].ObjectID != run.ID {
		t.Errorf("%+v, %v", entries, err)
	}
	if _, err := root.Admin().Usage(within(t), 10); err != nil {
		t.Error(err)
	}
	if err := root.Admin().SetQuota(within(t), "alice", &belljar.Quota{ConcurrentRuns: 7}); err != nil {
		t.Fatal(err)
	}
	if q, err := root.Admin().Quota(within(t), "alice"); err != nil || q.ConcurrentRuns != 7 {
		t.Errorf("%+v, %v", q, err)
	}
	if err := root.Admin().SetQuota(within(t), "alice", nil); err != nil {
		t.Fatal(err)
	}
	if q, err := root.Admin().Quota(within(t), "alice"); err != nil || q.ConcurrentRuns == 7 {
		t.Errorf("after its removal: %+v, %v", q, err)
	}
}

func TestTokens(t *testing.T) {
	w := newWorld(t, nil)
	root := w.client(as("root"))
	made, err := root.Admin().CreateToken(within(t), belljar.TokenSpec{UserID: "carol", Name: "laptop"})
	if err != nil || made.Secret == "" || !strings.HasPrefix(made.Secret, made.Prefix) {
		t.Fatalf("%+v, %v", made, err)
	}
	list, err := root.Admin().Tokens(within(t))
	if err != nil || len(list) != 1 || list[0].ID != made.ID || list[0].Secret != "" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := root.Admin().RevokeToken(within(t), made.ID); err != nil {
		t.Error(err)
	}
	want(t, root.Admin().RevokeToken(within(t), belljar.NewID()), belljar.CodeNotFound)
	_, err = w.client().Admin().Tokens(within(t))
	want(t, err, belljar.CodeForbidden)
}

// TestNotStaged: what the session of a large upload cannot have is refused before anything is made.
func TestNotStaged(t *testing.T) {
	c := open(t, double(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }))
	for field, set := range map[string]func(*belljar.RunSpec){
		"snapshot": func(s *belljar.RunSpec) { s.Snapshot = "x" }, "build_memory_mb": func(s *belljar.RunSpec) { s.BuildMemoryMB = 64 },
	} {
		req := shell("true")
		req.Upload = archive(t, map[string]string{"big": strings.Repeat("x", belljar.MaxInlineBytes+1)})
		set(&req.RunSpec)
		_, err := c.Runs().Start(within(t), req)
		want(t, err, belljar.CodeInvalidRequest)
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestStagedAsAsked: the session for a large upload has the isolation and the workspace of the run's request, and the resulting run in that
// session is valid.
func TestStagedAsAsked(t *testing.T) {
	asked, begun := make(chan belljar.SessionSpec, 1), make(chan belljar.RunSpec, 1)
	c := open(t, double(t, func(w http.ResponseWriter, r *http.Request) {
		var err error
		switch {
		case r.Method == http.MethodDelete:
		case strings.HasSuffix(r.URL.Path, "/sessions"):
			var spec belljar.SessionSpec
			err = json.NewDecoder(r.Body).Decode(&spec)
			asked <- spec
			says(http.StatusCreated, "application/json", `{"session_id":"s"}`)(w, r)
		case strings.HasSuffix(r.URL.Path, "/runs"):
			var spec belljar.RunSpec
			err = json.NewDecoder(r.Body).Decode(&spec)
			begun <- spec
			envelope(http.StatusForbidden, belljar.CodePolicyDenied)(w, r)
		default:
			_, err = io.Copy(io.Discard, r.Body)
			says(http.StatusOK, "application/json", `{}`)(w, r)
		}
		if err != nil {
			t.Errorf("%s %v", r.URL, err)
		}
	}))
	req := shell("wc -c <big")
	req.Upload = archive(t, map[string]string{"big": strings.Repeat("x", belljar.MaxInlineBytes+1)})
	req.TrustLevel, req.Isolation = "untrusted", "user_space_kernel"
	req.Workspace = belljar.Workspace{Medium: "disk", MB: 32}
	_, err := c.Runs().Start(within(t), req)
	want(t, err, belljar.CodePolicyDenied)
	if spec := <-asked; spec.TrustLevel != req.TrustLevel || spec.Isolation != req.Isolation || spec.Workspace != req.Workspace {
		t.Errorf("%+v", spec)
	}
	if spec := <-begun; spec.SessionID != "s" || spec.Validate() != nil {
		t.Errorf("%+v: %v", spec, spec.Validate())
	}
}
