package rest_test

import (
	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/apitest"
)

// Snapshots are those of an engine that stores nothing. It knows one session and one snapshot, with the id apitest.ID.
func (v view) Snapshots() belljar.Snapshots { return apitest.Still{}.As(v.caller).Snapshots() }
