package session

import (
	"testing"

	"github.com/belljar/belljar"
)

// made returns a session of a user, with a scope unless that is "".
func made(id, user, scope string) *Session {
	return &Session{id: id, caller: belljar.Caller{ID: user}, scope: scope, over: make(chan struct{})}
}

func TestTable(t *testing.T) {
	var all table
	one, two := made("1", "ann", "a:b:c"), made("2", "ann", "")
	for _, x := range []*Session{one, two} {
		if other, err := all.enter(x, 2, 3); other != nil || err != nil {
			t.Fatalf("%v, %v", other, err)
		}
	}
	if other, err := all.enter(made("3", "ann", "a:b:c"), 2, 3); other != one || err != nil {
		t.Errorf("a scope that is taken: %v, %v", other, err)
	}
	if _, err := all.enter(made("3", "ann", ""), 2, 3); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Errorf("one more than its user may have: %v", err)
	}
	ben := made("4", "ben", "a:b:c")
	if other, err := all.enter(ben, 2, 3); other != nil || err != nil {
		t.Errorf("another user's session of a scope of that name: %v, %v", other, err)
	}
	if _, err := all.enter(made("5", "cid", ""), 2, 3); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Errorf("one more than the node may have: %v", err)
	}
	if got := all.count("ann"); got != 2 || len(all.all()) != 3 {
		t.Errorf("ann has %d of %d", got, len(all.all()))
	}

	close(one.over) // its end may not be on record yet
	if all.inScope("ann", "a:b:c") != nil || all.inScope("ben", "a:b:c") != ben {
		t.Error("the scope of a session that has ended is not free, or another's is")
	}
	next := made("6", "ann", "a:b:c")
	if other, err := all.enter(next, 2, 3); other != nil || err != nil {
		t.Errorf("a scope that is free again: %v, %v", other, err)
	}
	all.remove(one)
	if all.get("1") != nil || all.inScope("ann", "a:b:c") != next {
		t.Error("with the former session of its scope, the new one went")
	}
	if left := all.close(); len(left) != 3 {
		t.Errorf("%d are left", len(left))
	}
	if _, err := all.enter(made("7", "dan", ""), -1, -1); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("entered a closed table: %v", err)
	}
}
