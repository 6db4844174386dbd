package ident

import (
	"testing"

	"github.com/belljar/belljar"
)

// The short id in a list is enough to find the object, even for the two snapshots of a session that hibernates with its
// processes.
func TestShortIsFound(t *testing.T) {
	one, other := belljar.NewID(), belljar.NewID()
	ids := []string{one, one + "-live", other}
	for i, short := range Short(ids) {
		got, err := Find("snapshot", short, func(int) ([]string, bool, error) { return ids, false, nil })
		if err != nil || got != ids[i] {
			t.Errorf("%s is shown as %s, which finds %q, %v", ids[i], short, got, err)
		}
	}
}
