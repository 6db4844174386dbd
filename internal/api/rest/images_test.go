package rest_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// awaitEvent reads a stream up to an event of that name and returns its data.
func awaitEvent(t *testing.T, lines *bufio.Scanner, name string) string {
	t.Helper()
	event := ""
	for lines.Scan() {
		if word, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = word
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && event == name {
			return data
		}
	}
	t.Fatalf("the stream ended without %s: %v", name, lines.Err())
	return ""
}

// events requests a stream. The caller reads its body.
func events(t *testing.T, b *bench, ctx context.Context, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+prefix+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("X-API-KEY", "root")
	req.Header.Set("Content-Type", "application/octet-stream")
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	plain := &http.Transport{}
	resp, err := plain.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = resp.Body.Close()
		plain.CloseIdleConnections()
	})
	return resp
}

// A pull reports its progress, and at last the image or an error.
func TestPullEvents(t *testing.T) {
	b := newBench(t)
	g := newGallery()
	b.world.images = g
	for ref, last := range map[string]string{"slow": "done", "slow-broken": "error"} {
		resp := events(t, b, t.Context(), "/images/pull", `{"ref": "`+ref+`"}`)
		if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || kind != "text/event-stream" {
			t.Fatalf("answer %d, %s", resp.StatusCode, kind)
		}
		lines := bufio.NewScanner(resp.Body)
		if data := awaitEvent(t, lines, "progress"); !strings.Contains(data, `"phase":"pulling"`) || !strings.Contains(data, `"total":3`) {
			t.Errorf("progress %s", data)
		}
		g.resume <- struct{}{} // the event above arrived during the pull
		data := awaitEvent(t, lines, last)
		if last == "done" && !strings.Contains(data, `"ref":"slow"`) || last == "error" && !(strings.Contains(data, `"code":"image_unavailable"`) && strings.Contains(data, `"details":{}`)) {
			t.Errorf("%s %s", last, data)
		}
	}
	// An immediate error is a plain response.
	if resp := events(t, b, t.Context(), "/images/pull", `{"ref": "denied"}`); resp.StatusCode != http.StatusForbidden {
		t.Errorf("what is denied answers %d", resp.StatusCode)
	}
	// The pull ends its wait if the client disconnects.
	ctx, leave := context.WithCancel(t.Context())
	awaitEvent(t, bufio.NewScanner(events(t, b, ctx, "/images/pull", `{"ref": "slow"}`).Body), "progress")
	leave()
	if err := <-g.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the pull ended with %v", err)
	}
}

// The events of an import start after its body has been read.
func TestImportEvents(t *testing.T) {
	b := newBench(t)
	g := newGallery()
	b.world.images = g
	big := strings.Repeat("x", 1<<20)
	lines := bufio.NewScanner(events(t, b, t.Context(), "/images/import?name=own", big).Body)
	if data := awaitEvent(t, lines, "progress"); !strings.Contains(data, `"phase":"done"`) {
		t.Errorf("the first is %s", data)
	}
	if data := awaitEvent(t, lines, "done"); !strings.Contains(data, `"ref":"own"`) || g.sent != big {
		t.Errorf("done %s after %d bytes", data, len(g.sent))
	}
	if resp := events(t, b, t.Context(), "/images/import", "bad"); resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a bad one answers %d", resp.StatusCode)
	}
}
