package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
)

func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(10, time.Minute)
		take := func(user string, n int64) func() {
			t.Helper()
			give, err := s.Take(t.Context(), user, n)
			if err != nil {
				t.Fatalf("%s %d: %v", user, n, err)
			}
			return give
		}
		six := take("ann", 6)
		four := take("ann", 4)
		take("bob", 10)() // does not wait for ann
		take("ann", 0)()

		begun := time.Now()
		if _, err := s.Take(t.Context(), "ann", 5); belljar.CodeOf(err) != belljar.CodeRateLimited || time.Since(begun) != time.Minute {
			t.Errorf("too much for too long: %v after %v", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Take(ctx, "ann", 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one who went away: %v", err)
		}

		got := make(chan func(), 1)
		go func() { got <- take("ann", 5) }()
		synctest.Wait()
		four()
		four() // the second call does nothing
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("five of four")
		default:
		}
		six()
		(<-got)()
		take("ann", 1000)() // more than the share: reserves all of it
		if len(s.used) > 0 {
			t.Errorf("left: %v", s.used)
		}
	})
}

func TestAnnounced(t *testing.T) {
	for _, c := range [][3]int64{{-1, 10, 10}, {3, 10, 3}, {0, 10, 0}, {11, 10, 10}} {
		if got := BodySize(c[0], c[1]); got != c[2] {
			t.Errorf("%d of %d: %d", c[0], c[1], got)
		}
	}
}

// Results whose log is read into memory take three times as much there, and in an answer, if their text is not UTF-8.
func TestResultsSize(t *testing.T) {
	text := strings.Repeat("\xff", 1000)
	line := []byte(`{"type":"value","data":{"text/plain":"` + text + `"}}` + "\n")
	results, _, err := belljar.Results(func(yield func(belljar.Frame, error) bool) {
		yield(belljar.Frame{Seq: 1, Type: belljar.FrameResult, Output: line}, nil)
	})
	if err != nil || len(results) != 1 {
		t.Fatal(results, err)
	}
	answer, err := json.Marshal(results)
	if err != nil {
		t.Fatal(err)
	}
	run := belljar.Run{ResourceUsage: &belljar.ResourceUsage{LogBytes: int64(len(line))}}
	for name, size := range map[string]func(belljar.Run) int64{"ResultsSize": ResultsSize, "OutputSize": OutputSize} {
		if n := size(run); n < int64(len(answer)) {
			t.Errorf("%s is %d for an answer of %d bytes", name, n, len(answer))
		}
	}
	for seq, want := range map[uint64]int64{0: 16 << 20, 2: 2 * 3 * belljar.MaxFrameBytes, 1 << 60: 16 << 20} {
		if n := ResultsSize(belljar.Run{LastSeq: seq}); n != want {
			t.Errorf("a live run with %d frames reserves %d, want %d", seq, n, want)
		}
	}
}

// TestChunkedBodies checks that a body without a length holds only its actual size of the share once it is read.
func TestChunkedBodies(t *testing.T) {
	s := NewShares(10, 0)
	for i := range 3 {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("abc")))
		data, give, err := s.ReadBody(httptest.NewRecorder(), r, 4)
		if err != nil || string(data) != "abc" || r.ContentLength != -1 {
			t.Fatalf("body %d: %q, %v", i, data, err)
		}
		defer func() {
			give()
			give() // does nothing
			if i == 0 && len(s.used) > 0 {
				t.Errorf("left: %v", s.used)
			}
		}()
	}
}

// A long message counts as the limit while it is unfinished, and then as its size. A short one does not count.
func TestReadMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(300<<10, time.Minute)
		if data, give, err := s.ReadMessage(t.Context(), "ann", strings.NewReader("short"), 200<<10); string(data) != "short" || err != nil {
			t.Errorf("%q, %v", data, err)
		} else if give(); len(s.used) > 0 {
			t.Errorf("a short message: %v", s.used)
		}
		long := strings.Repeat("x", 100<<10)
		in, out := io.Pipe()
		done := make(chan func(), 1)
		go func() {
			data, give, err := s.ReadMessage(t.Context(), "ann", in, 200<<10)
			if string(data) != long || err != nil {
				t.Errorf("%d bytes, %v", len(data), err)
			}
			done <- give
		}()
		if _, err := io.WriteString(out, long); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s.used["ann"] != 200<<10 {
			t.Errorf("unfinished: %v", s.used)
		}
		if _, _, err := s.ReadMessage(t.Context(), "ann", strings.NewReader(long), 200<<10); belljar.CodeOf(err) != belljar.CodeRateLimited {
			t.Errorf("a second one: %v", err)
		}
		_ = out.Close()
		give := <-done
		if s.used["ann"] != 100<<10 {
			t.Errorf("finished: %v", s.used)
		}
		if give(); len(s.used) > 0 {
			t.Errorf("left: %v", s.used)
		}
		if _, _, err := s.ReadMessage(t.Context(), "ann", io.MultiReader(strings.NewReader(long), iotest.ErrReader(io.ErrUnexpectedEOF)), 200<<10); err == nil || len(s.used) > 0 {
			t.Errorf("a broken one: %v, %v", err, s.used)
		}
	})
}
