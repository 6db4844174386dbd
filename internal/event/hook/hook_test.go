package hook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// results receives the result for each event.
type results chan string

func (r results) Record(e event.Event) {
	if e.Name == event.HookSent {
		r <- e.Kind
	}
}

func (r results) want(t *testing.T, kinds ...string) {
	t.Helper()
	for i, kind := range kinds {
		if got := <-r; got != kind {
			t.Errorf("event %d is %s, want %s", i, got, kind)
		}
	}
}

// logs is a log that tests can read concurrently.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func asked(id string) event.Event {
	return event.Event{Name: event.ApprovalRequested, Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Approval: &belljar.Approval{
		ID: id, Kind: "run", State: belljar.ApprovalPending, Reasons: []string{"timeout_sec>600: 1200"}, UserID: "ann", Source: "mcp",
		RequestedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Command: []string{"curl", "--token", "hunter2"}, Note: "hunter2",
	}}
}

// receiver serves a peer, and returns a hook that delivers to it.
func receiver(t *testing.T, answer http.HandlerFunc, change ...func(*Options)) (*Hook, results, *logs) {
	t.Helper()
	peer := httptest.NewServer(answer)
	t.Cleanup(peer.Close)
	got, log := make(results, 64), &logs{}
	o := Options{
		URL: peer.URL + "/in?token=open-sesame", Key: []byte("0123456789abcdef0123456789abcdef"), Waits: []time.Duration{0, 0, 0}, Events: got,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	for _, c := range change {
		c(&o)
	}
	h, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h, got, log
}

// A receiver can verify a message with only the key, and gets nothing confidential.
func TestSigned(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(NewKey())
	if err != nil {
		t.Fatal(err)
	}
	type request struct {
		header http.Header
		body   []byte
	}
	requests := make(chan request, 8)
	h, got, _ := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		requests <- request{r.Header, b}
	}, func(o *Options) { o.Key = key })
	h.Record(event.Event{Name: event.RunCreated, Run: &belljar.Run{}}) // not about an approval
	h.Record(asked("a1"))
	got.want(t, Delivered)
	r := <-requests
	id, at := r.header.Get("webhook-id"), r.header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "." + string(r.body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.header.Get("webhook-signature") != want {
		t.Errorf("signature is %q, want %q", r.header.Get("webhook-signature"), want)
	}
	if id != "a1_1772366400000000_requested" || len(at) != 10 || r.header.Get("content-type") != "application/json" {
		t.Errorf("%v", r.header)
	}
	var m map[string]any
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatal(err)
	}
	d, _ := m["data"].(map[string]any)
	if m["type"] != "sandbox.approval.requested" || m["timestamp"] != "2026-03-01T12:00:00Z" || d["approval_id"] != "a1" || d["state"] != "pending" || d["user_id"] != "ann" {
		t.Errorf("%s", r.body)
	}
	if strings.Contains(string(r.body), "hunter2") {
		t.Errorf("the body has the command or the note: %s", r.body)
	}
	if err := h.Close(); err != nil || len(requests) > 0 {
		t.Errorf("%v, %d more requests", err, len(requests))
	}
}

// A receiver that fails for a while gets the same message again. One that refuses it gets it only once. The log reports the failure
// once, and never contains the token.
func TestFailures(t *testing.T) {
	t.Parallel()
	answers := []int{500, 429, 200, 400, 302, 500, 500, 500, 500, 204}
	var ids []string
	h, got, log := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		ids = append(ids, r.Header.Get("webhook-id"))
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(answers[0])
		answers = answers[1:]
	})
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		h.Record(asked(id))
	}
	got.want(t, Delivered, Failed, Failed, Failed, Delivered)
	h.Close()
	if want := "a a a b c d d d d e"; strings.ReplaceAll(strings.Join(ids, " "), "_1772366400000000_requested", "") != want {
		t.Errorf("requests: %v, want %s", ids, want)
	}
	text := log.String()
	if strings.Count(text, "level=WARN") != 1 || strings.Count(text, "level=INFO") != 1 || !strings.Contains(text, "it answers 400") || strings.Contains(text, "sesame") {
		t.Errorf("log:\n%s", text)
	}
}

// A request that waits again after a restart, for another reason, is a new message: a receiver that drops repeated ids must not drop it.
func TestRequestedAgain(t *testing.T) {
	t.Parallel()
	var ids []string
	tries := 0
	h, got, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		ids = append(ids, r.Header.Get("webhook-id"))
		if tries++; tries == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	again := asked("a")
	again.Approval.RequestedAt = again.Approval.RequestedAt.Add(time.Microsecond)
	h.Record(asked("a"))
	h.Record(again)
	got.want(t, Delivered, Delivered)
	h.Close()
	if len(ids) != 3 || ids[0] != ids[1] || ids[1] == ids[2] {
		t.Errorf("ids %q, want one for both attempts of the first message, and another for the second", ids)
	}
}

// A receiver that is gone, or never responds, uses up the attempts. Recording does not wait for it.
func TestGone(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	h, got, _ := receiver(t, func(http.ResponseWriter, *http.Request) { <-release }, func(o *Options) { o.Timeout, o.Queue = 20*time.Millisecond, 2 })
	defer close(release) // before the peer is closed
	h.Record(asked("slow"))
	got.want(t, Failed)
	gone, got, log := receiver(t, nil, func(o *Options) { o.URL = "http://127.0.0.1:1/in?token=open-sesame" })
	gone.Record(asked("gone"))
	got.want(t, Failed)
	if text := log.String(); !strings.Contains(text, "127.0.0.1:1") || strings.Contains(text, "sesame") {
		t.Errorf("log:\n%s", text)
	}
}

// While a receiver hangs, the number of queued events is bounded. Close then ends within the grace period and counts each of them.
func TestClose(t *testing.T) {
	t.Parallel()
	release, entered := make(chan struct{}), make(chan struct{}, 8)
	h, got, _ := receiver(t, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	}, func(o *Options) { o.Grace, o.Timeout, o.Queue = 10*time.Millisecond, 2*time.Minute, 2 })
	defer close(release)
	h.Record(asked("a"))
	<-entered
	for range 4 {
		h.Record(asked("b"))
	}
	got.want(t, Dropped, Dropped)
	began := time.Now()
	h.Close()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("Close took %s", took)
	}
	got.want(t, Failed, Failed, Failed)
	h.Close()
}

// A user with many events drops their own when the queue is full. Those of other users are delivered, in order.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	release, entered := make(chan struct{}), make(chan string, 8)
	h, got, _ := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		id, _, _ := strings.Cut(r.Header.Get("webhook-id"), "_")
		entered <- id
		<-release
	}, func(o *Options) { o.Queue = 3 })
	by := func(user, id string) {
		e := asked(id)
		e.Approval.UserID = user
		h.Record(e)
	}
	by("ann", "a1")
	ids := []string{<-entered}
	by("cid", "c1")
	for _, id := range []string{"a2", "a3", "a4"} {
		by("ann", id)
	}
	by("bob", "b1")
	by("ann", "a5") // each has one
	by("bob", "b2")
	got.want(t, Dropped, Dropped, Dropped, Dropped)
	close(release)
	got.want(t, Delivered, Delivered, Delivered, Delivered)
	h.Close()
	for len(entered) > 0 {
		ids = append(ids, <-entered)
	}
	if !slices.Equal(ids, []string{"a1", "c1", "a2", "b1"}) {
		t.Errorf("delivered: %v", ids)
	}
}

// Events that are queued when the server ends are still delivered.
func TestCloseDelivers(t *testing.T) {
	t.Parallel()
	h, got, _ := receiver(t, func(http.ResponseWriter, *http.Request) {}, func(o *Options) { o.Grace = time.Minute })
	for _, id := range []string{"a", "b", "c"} {
		h.Record(asked(id))
	}
	h.Close()
	got.want(t, Delivered, Delivered, Delivered)
}

func TestOpenRefused(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"", "ftp://hooks.example", "//hooks.example", "http://", "hooks.example/in", "\x00"} {
		if _, err := Open(Options{URL: u}); err == nil {
			t.Errorf("%q is accepted", u)
		}
	}
	for _, k := range []string{"", "whsec_", "whsec_c2hvcnQ=", "c2hvcnQ=", "whsec_" + strings.Repeat("QUFB", 30), "whsec_*" + strings.Repeat("QUFB", 10)} {
		if _, err := ParseKey(k); err == nil {
			t.Errorf("%q is accepted", k)
		}
	}
}
