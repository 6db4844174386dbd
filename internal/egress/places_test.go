package egress

import "testing"

// TestPlaces opens connections through three gates, two of which are of one user.
func TestPlaces(t *testing.T) {
	places := &Places{OfUser: 3, OfAll: 4}
	of := func(user string) *world {
		w := newWorld(t, func(o *Options) { o.Places, o.User = places, user })
		w.peer("a.example.com", public, 5432, echo)
		return w
	}
	one, two, other := of("ann"), of("ann"), of("bob")
	taken := func(want int) {
		t.Helper()
		one.wait("the places", func() bool { places.mu.Lock(); defer places.mu.Unlock(); return places.all == want })
	}
	first := one.connect("a.example.com", 5432)
	one.connect("a.example.com", 5432)
	two.connect("a.example.com", 5432)
	two.refused("a.example.com", 5432, Limit) // the fourth of ann
	theirs := other.connect("a.example.com", 5432)
	other.refused("a.example.com", 5432, Limit) // the fifth of all
	first.Close()
	taken(3)
	two.connect("a.example.com", 5432)
	theirs.Close()
	taken(3)
	two.refused("a.example.com", 5432, Limit)
	for _, w := range []*world{one, two} {
		w.gate.SetPolicy(Policy{})
	}
	taken(0)
	if len(places.users) != 0 {
		t.Errorf("kept %v", places.users)
	}
}
