package placement

import "testing"

// Orphans that are suspected during a look stay suspected after it.
func TestSuspicionDuringALook(t *testing.T) {
	var o Orphans
	look := func(during func(), found ...string) (suspected bool) {
		suspected, _ = o.Suspected()
		during()
		o.Found(found)
		return suspected
	}
	nothing := func() {}
	o.Suspect()
	if !look(o.Suspect) {
		t.Error("a suspicion is lost")
	}
	if !look(nothing) {
		t.Error("what came during a look is lost")
	}
	if look(nothing) {
		t.Error("suspected though a look found nothing")
	}
}
