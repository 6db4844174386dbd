package api

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
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
