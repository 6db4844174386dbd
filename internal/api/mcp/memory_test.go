package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"weak"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// newEvents returns stores without events.
func newEvents() *events { return &events{users: map[string]*userEvents{}} }

// The messages of a batch are answered one after the other: each only once the answer before is sent. Other messages wait for none.
func TestBatchIsAnsweredInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &clientSession{}
		begun := 0
		handle := s.receive(func(context.Context, string, sdk.Request) (sdk.Result, error) {
			begun++
			return &sdk.ReadResourceResult{}, nil
		})
		send := func(method, request string) (sent func()) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context()) // the SDK cancels it when the answer is sent
			req := &sdk.ReadResourceRequest{Params: &sdk.ReadResourceParams{}, Extra: &sdk.RequestExtra{Header: http.Header{requestHeader: {request}}}}
			go handle(ctx, method, req)
			synctest.Wait()
			return cancel
		}
		want := func(n int, when string) {
			t.Helper()
			if synctest.Wait(); begun != n {
				t.Errorf("%s: %d messages are handled, want %d", when, begun, n)
			}
		}
		first := send("resources/read", batchPrefix+"1")
		want(1, "the first")
		second := send("resources/read", batchPrefix+"1")
		third := send("resources/read", batchPrefix+"1")
		want(1, "while its answer is not sent")
		defer send("resources/read", batchPrefix+"2")()
		defer send("resources/read", requestKey(1))()
		defer send("notifications/cancelled", batchPrefix+"1")()
		want(4, "others")
		third()
		want(4, "when the third is cancelled")
		first()
		want(5, "when the first is sent")
		second()
		defer send("resources/read", batchPrefix+"1")()
		want(6, "at last")
	})
}

// Events that are evicted do not stay in memory with their stream.
func TestEvictedEventsAreFreed(t *testing.T) {
	all, ctx := newEvents(), t.Context()
	e := all.of("ann")
	for _, stream := range []string{"a", "b"} {
		if err := e.Open(ctx, "s", stream); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Append(ctx, "s", "a", make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	kept := weak.Make(&all.users["ann"].streams[0].data[0][0])
	if err := e.Append(ctx, "s", "b", make([]byte, maxEventBytes)); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if kept.Value() != nil {
		t.Error("an evicted event is in memory")
	}
	runtime.KeepAlive(e)
}

// The session's own stream can be read again after other events have evicted its events.
func TestOwnStreamAfterEviction(t *testing.T) {
	e, ctx := newEvents().of("ann"), t.Context()
	for _, stream := range []string{"", "a"} {
		if err := e.Open(ctx, "s", stream); err != nil {
			t.Fatal(err)
		}
	}
	for _, event := range []struct {
		stream string
		size   int
	}{{"", 10}, {"a", maxEventBytes - 25}, {"", 20}} {
		if err := e.Append(ctx, "s", event.stream, make([]byte, event.size)); err != nil {
			t.Fatal(err)
		}
	}
	for after, want := range map[int]int{-1: 1, 0: 1, 1: 0} {
		got := 0
		for event, err := range e.After(ctx, "s", "", after) {
			if got++; err != nil || len(event) != 20 {
				t.Errorf("after %d: %d bytes, %v", after, len(event), err)
			}
		}
		if got != want {
			t.Errorf("after %d: %d events", after, got)
		}
	}
}

// The events of the user who holds the most are evicted, also when another user adds one. Nothing is counted after the last session of a user.
func TestEvictionByUser(t *testing.T) {
	all, ctx := newEvents(), t.Context()
	stores := map[string]*sessionEvents{"ann": all.of("ann"), "bob": all.of("bob")}
	add := func(user string, size int) {
		t.Helper()
		if err := errors.Join(stores[user].Open(ctx, "s", "a"), stores[user].Append(ctx, "s", "a", make([]byte, size))); err != nil {
			t.Fatal(err)
		}
	}
	want := func(user string, sizes ...int) {
		t.Helper()
		got := []int{}
		for _, d := range stores[user].streams["a"].data {
			got = append(got, len(d))
		}
		if !slices.Equal(got, sizes) {
			t.Errorf("the events of %s have %d bytes, want %d", user, got, sizes)
		}
	}
	const part = maxEventBytes / 8
	add("bob", part)
	for range 9 {
		add("ann", part)
	}
	want("bob", part)
	want("ann", part, part, part, part, part, part, part)
	add("bob", part)
	want("bob", part, part)
	want("ann", part, part, part, part, part, part)
	for _, e := range stores {
		if err := errors.Join(e.SessionClosed(ctx, "s"), e.Open(ctx, "s", "late")); err != nil {
			t.Fatal(err)
		}
	}
	if all.bytes != 0 || len(all.users) != 0 {
		t.Errorf("%d bytes of %d users are left", all.bytes, len(all.users))
	}
}

// The contents of a client's cancellations do not stay in memory.
func TestCancellationsAreSmall(t *testing.T) {
	s := &clientSession{late: map[string]bool{}}
	const size, cancellations = 256 << 10, 100
	long := strings.Repeat("x", size)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range cancellations {
		params, err := json.Marshal(map[string]any{"requestId": string(rune('a'+n)) + long, "reason": "timed out " + long})
		if err != nil {
			t.Fatal(err)
		}
		s.noteCancelled(params)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > size*cancellations/4 {
		t.Errorf("%d bytes are kept", grown)
	}
	for _, ask := range []struct {
		about string
		want  bool
	}{{"the first time", true}, {"the second time", false}} {
		if s.clientTimedOut(requestKey("a"+long)) != ask.want {
			t.Errorf("%s it is not %v that the client stopped waiting", ask.about, ask.want)
		}
	}
}
