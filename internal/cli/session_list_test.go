package cli

import (
	"context"
	"strconv"
	"testing"

	"github.com/belljar/belljar"
)

// shifting is a service with sessions, to which one is added before each page.
type shifting struct {
	belljar.Service
	made int
}

func (s *shifting) Sessions() belljar.Sessions { return shiftingSessions{s: s} }

type shiftingSessions struct {
	belljar.Sessions
	s *shifting
}

func (x shiftingSessions) List(_ context.Context, q belljar.SessionQuery) (page belljar.SessionPage, _ error) {
	s := x.s
	s.made++
	for i := q.Offset; i < min(q.Offset+q.Limit, s.made); i++ {
		page.Items = append(page.Items, belljar.Session{ID: strconv.Itoa(s.made - i)}) // newest first
	}
	page.Total, page.HasMore = s.made, q.Offset+q.Limit < s.made
	return page, nil
}

// A session that is made while the pages of the list are read repeats none of the others.
func TestSessionsOnce(t *testing.T) {
	for _, test := range []struct {
		limit, want int
		more        bool
	}{{1000, 451, false}, {300, 300, true}, {50, 50, true}} {
		page, err := (&sessionList{Limit: test.limit}).list(t.Context(), &shifting{made: 450})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, x := range page.Items {
			seen[x.ID] = true
		}
		if len(page.Items) != test.want || len(seen) != test.want || page.HasMore != test.more {
			t.Errorf("limit %d: %d sessions, %d of them different, more: %t; want %d, %t", test.limit, len(page.Items), len(seen), page.HasMore, test.want, test.more)
		}
	}
}
