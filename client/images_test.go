package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// imageServer is a server of images with the test's handler.
func imageServer(t *testing.T, answer http.HandlerFunc) belljar.Images {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{URL: server.URL, APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c.Images()
}

// eventsTo starts a response of events and returns a function that writes one.
func eventsTo(w http.ResponseWriter) func(text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	return func(text string) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
}

func TestPullIsFollowed(t *testing.T) {
	images := imageServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/api/v1/sandbox/images/pull" || string(body) != `{"ref":"python:3.11-slim","always":true}` {
			http.Error(w, string(body), http.StatusTeapot)
			return
		}
		say := eventsTo(w)
		say(": still here\n\n")
		say("event: progress\ndata: {\"phase\":\"pulling\",\"done\":1,\"total\":2}\n\n")
		say("event: something new\ndata: 1\n\nevent: done\ndata: {\"ref\":\"python\",\ndata: \"digest\":\"sha256:0\"}\n\n")
	})
	var progress []belljar.ImageProgress
	got, err := images.Pull(t.Context(), belljar.ImagePull{Ref: "python:3.11-slim", Always: true}, func(p belljar.ImageProgress) { progress = append(progress, p) })
	if err != nil || got.Ref != "python" || got.Digest != "sha256:0" || len(progress) != 1 || progress[0].Total != 2 {
		t.Errorf("%+v, %v, after %v", got, err, progress)
	}
	if _, err := images.Pull(t.Context(), belljar.ImagePull{Ref: "python:3.11-slim", Always: true}, nil); err != nil {
		t.Errorf("without a listener: %v", err)
	}
}

// The caller gets a useful error for every premature end of a stream.
func TestPullEndsBadly(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		code   belljar.Code
		word   string
	}{
		"failed": {func(w http.ResponseWriter, _ *http.Request) {
			eventsTo(w)("event: error\ndata: {\"error\":{\"code\":\"image_unavailable\",\"message\":\"gone\",\"hint\":\"later\"}}\n\n")
		}, belljar.CodeImageUnavailable, "gone"},
		"broken": {func(w http.ResponseWriter, _ *http.Request) {
			eventsTo(w)("event: progress\ndata: {\"phase\":\"pulling\",\"done\":1}\n\nevent: do")
			panic(http.ErrAbortHandler)
		}, belljar.CodeRuntimeUnavailable, "may continue"},
		"ended": {func(w http.ResponseWriter, _ *http.Request) { eventsTo(w)(": \n\n") }, belljar.CodeRuntimeUnavailable, "may continue"},
		"no stream": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>")
		}, belljar.CodeInternal, "so it is not belljar"},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) { eventsTo(w)("event: done\ndata: {\n\n") }, belljar.CodeInternal, "so it is not belljar"},
		"refused": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":{"code":"policy_denied","message":"not here"}}`)
		}, belljar.CodePolicyDenied, "not here"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := imageServer(t, c.answer).Pull(t.Context(), belljar.ImagePull{Ref: "x"}, nil)
			if belljar.CodeOf(err) != c.code || !strings.Contains(err.Error()+belljar.HintOf(err), c.word) {
				t.Errorf("%v, hint %q; want %s with %q", err, belljar.HintOf(err), c.code, c.word)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := imageServer(t, func(w http.ResponseWriter, r *http.Request) {
		eventsTo(w)(": \n\n")
		cancel()
		<-r.Context().Done()
	}).Pull(ctx, belljar.ImagePull{Ref: "x"}, nil)
	if belljar.CodeOf(err) != belljar.CodeCanceled {
		t.Errorf("given up: %v", err)
	}
}

func TestImportIsSent(t *testing.T) {
	images := imageServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		say := eventsTo(w)
		say("event: progress\ndata: {\"phase\":\"unpacking\",\"done\":1}\n\n")
		say(fmt.Sprintf("event: done\ndata: {\"ref\":%q,\"bytes\":%d}\n\n", r.URL.Query().Get("name"), len(body)))
	})
	var last belljar.ImageProgress
	sent := int64(0)
	got, err := images.Import(t.Context(), "own", strings.NewReader(strings.Repeat("x", 1<<20)), func(p belljar.ImageProgress) {
		if last = p; p.Phase == belljar.ImagePulling {
			sent = p.Done
		}
	})
	if err != nil || got.Ref != "own" || got.Bytes != 1<<20 || sent != 1<<20 || last.Phase != belljar.ImageUnpacking {
		t.Errorf("%+v, %v; %d bytes were reported, at last %+v", got, err, sent, last)
	}
	_, err = images.Import(t.Context(), "own", io.MultiReader(strings.NewReader("x"), torn{}), nil)
	if belljar.CodeOf(err) != belljar.CodeInvalidRequest || !errors.Is(err, errTorn) {
		t.Errorf("what cannot be read: %v", err)
	}
}

var errTorn = errors.New("torn")

// torn is a reader that fails.
type torn struct{}

func (torn) Read([]byte) (int, error) { return 0, errTorn }
