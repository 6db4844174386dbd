// Package hook reports approvals to a URL of the operator, as they are requested and decided (docs/approvals.md#webhook). The requests
// follow the Standard Webhooks specification: a JSON body, signed with HMAC-SHA256.
//
// No caller waits for it. Undelivered events are counted.
package hook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/event"
)

// The results of a delivery, which are the kinds of [event.HookSent].
const (
	Delivered = "delivered"
	Failed    = "failed" // refused, or all attempts failed
	Dropped   = "dropped"
)

// Options configure a hook.
type Options struct {
	URL     string           // http or https
	Key     []byte           // signing key; see [ParseKey]
	Roots   *x509.CertPool   // authorities that verify an https server; nil is the system's
	Waits   []time.Duration  // before the second and each further attempt; nil is 1, 5 and 30 s
	Timeout time.Duration    // of one attempt; 0 is 10 s
	Grace   time.Duration    // how long Close waits for deliveries; 0 is 2 s
	Queue   int              // largest number of queued events; 0 is 1024
	Events  event.Sink       // receives [event.HookSent]; nil discards
	Logger  *slog.Logger     // logs when deliveries fail and when they work again; nil discards
	Now     func() time.Time // nil is [time.Now]
}

// Hook is an [event.Sink]. It delivers one event at a time, in order.
type Hook struct {
	opts   Options
	host   string
	client *http.Client
	more   chan struct{} // receives a value after an event is queued

	closing sync.Once
	stop    chan struct{} // closed by Close
	done    chan struct{} // closed when the last delivery has ended
	ctx     context.Context
	cancel  context.CancelFunc

	mu    sync.Mutex
	queue []event.Event
	mute  bool // a failure was logged and persists
}

const keyPrefix = "whsec_"

// NewKey returns a new key in its text form.
func NewKey() string {
	b := make([]byte, 32)
	rand.Read(b)
	return keyPrefix + base64.StdEncoding.EncodeToString(b)
}

// ParseKey parses the text form of a key: whsec_ and the base64 of 24 to 64 bytes.
func ParseKey(s string) ([]byte, error) {
	text, found := strings.CutPrefix(s, keyPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !found || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("must be whsec_ and the base64 of 24 to 64 bytes")
	}
	return key, nil
}

// Open returns a hook that delivers until Close.
func Open(o Options) (*Hook, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("hook: the address is no http or https URL")
	}
	if o.Waits == nil {
		o.Waits = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Grace <= 0 {
		o.Grace = 2 * time.Second
	}
	if o.Queue <= 0 {
		o.Queue = 1024
	}
	if o.Events == nil {
		o.Events = event.Sinks(nil)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &Hook{
		opts: o, host: u.Host, client: newClient(o.Roots), more: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	go h.run()
	return h, nil
}

// Record queues the events of approvals. It never blocks. When the queue is full, it drops the newest event of the user with the most.
func (h *Hook) Record(e event.Event) {
	if e.Approval == nil || !strings.HasPrefix(e.Name, "sandbox.approval.") {
		return
	}
	if e.Time.IsZero() {
		e.Time = h.opts.Now()
	}
	h.mu.Lock()
	h.queue = append(h.queue, e)
	full := len(h.queue) > h.opts.Queue
	if full {
		h.drop()
	}
	h.mu.Unlock()
	select {
	case h.more <- struct{}{}:
	default:
	}
	if full {
		h.count(Dropped)
		h.failing(errors.New("too many events wait"))
	}
}

// drop removes the newest event of the user with the most. h.mu is held.
func (h *Hook) drop() {
	counts, most, newest := map[string]int{}, "", 0
	for i, e := range h.queue {
		user := e.Approval.UserID
		if counts[user]++; counts[user] >= counts[most] {
			most = user
		}
		if user == most {
			newest = i
		}
	}
	h.queue = slices.Delete(h.queue, newest, newest+1)
}

// next removes the oldest event from the queue; false if there is none.
func (h *Hook) next() (e event.Event, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) == 0 {
		return e, false
	}
	e, h.queue[0] = h.queue[0], event.Event{} // the array outlives the slice
	h.queue = h.queue[1:]
	return e, true
}

// Close tries once to deliver the queued events, for at most the grace period, and counts the rest. It may be called twice.
func (h *Hook) Close() error {
	h.closing.Do(func() {
		close(h.stop)
		time.AfterFunc(h.opts.Grace, h.cancel)
	})
	<-h.done
	h.cancel()
	h.client.CloseIdleConnections()
	return nil
}

func (h *Hook) run() {
	defer close(h.done)
	for stopping := false; ; {
		for e, ok := h.next(); ok; e, ok = h.next() {
			h.deliver(e)
		}
		if stopping {
			return
		}
		select {
		case <-h.more:
		case <-h.stop:
			stopping = true
		}
	}
}

// deliver sends an event until it is accepted, refused permanently, or the attempts are used up.
func (h *Hook) deliver(e event.Event) {
	id, body := encode(e)
	for try := 0; ; try++ {
		again, err := h.send(id, body)
		if err == nil {
			h.working()
			h.count(Delivered)
			return
		}
		if !again || try == len(h.opts.Waits) || !h.wait(h.opts.Waits[try]) {
			h.failing(err)
			h.count(Failed)
			return
		}
	}
}

// wait waits for d, and returns false if Close interrupts it.
func (h *Hook) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-h.stop:
		return false
	}
}

// send makes one attempt. Its error never has the URL, which may contain a token. again reports whether another attempt can succeed.
func (h *Hook) send(id string, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(h.ctx, h.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.opts.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the URL is invalid")
	}
	at := strconv.FormatInt(h.opts.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "belljar")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", Sign(h.opts.Key, id, at, body))
	resp, err := h.client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return true, err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be reused
	switch s := resp.StatusCode; {
	case s >= 200 && s < 300:
		return false, nil
	case s >= 300 && s < 400:
		return false, fmt.Errorf("it answers %d, and redirects are not followed", s)
	default:
		return s >= 500 || s == http.StatusTooManyRequests || s == http.StatusRequestTimeout, fmt.Errorf("it answers %d", s)
	}
}

// Sign returns the header webhook-signature of a request.
func Sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, timestamp)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func (h *Hook) count(result string) {
	h.opts.Events.Record(event.Event{Name: event.HookSent, Kind: result})
}

// failing logs the first of a series of failures.
func (h *Hook) failing(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.mute {
		h.opts.Logger.Warn("the approval webhook does not take events", "host", h.host, "err", err)
	}
	h.mute = true
}

// working logs the end of such a series.
func (h *Hook) working() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mute {
		h.opts.Logger.Info("the approval webhook takes events again", "host", h.host)
	}
	h.mute = false
}
