//go:build linux && soak

package native_test

import "testing"

// TestSoakMemoryAtFullSpeed runs every test of the memory warden with writers at full speed close to the
// limit.
func TestSoakMemoryAtFullSpeed(t *testing.T) {
	for name, test := range map[string]func(*testing.T, string){
		"programs":         memoryIsThePrograms,
		"without a daemon": memoryIsHeldWithoutADaemon,
		"the next warden":  memoryIsHeldByTheNextWarden,
		"without a warden": memoryIsHeldWithoutAWarden,
	} {
		t.Run(name, func(t *testing.T) { test(t, fullSpeed) })
	}
}
