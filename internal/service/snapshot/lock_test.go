package snapshot

import (
	"testing"

	"github.com/belljar/belljar"
)

func TestTurns(t *testing.T) {
	var all turns
	var leave []func()
	for range archivesAtOnce {
		l, err := all.take("ann")
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	if _, err := all.take("ann"); belljar.CodeOf(err) != belljar.CodeRateLimited {
		t.Errorf("one too many: %v", err)
	}
	if l, err := all.take("ben"); err != nil {
		t.Errorf("another user: %v", err)
	} else {
		l()
	}
	for _, l := range leave {
		l()
	}
	if l, err := all.take("ann"); err != nil || len(all.taken) != 1 {
		t.Errorf("%v, %v", err, all.taken)
	} else if l(); len(all.taken) != 0 {
		t.Errorf("%v", all.taken)
	}
}
