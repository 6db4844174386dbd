//go:build linux

package rootfs

import "testing"

// A sandbox with the host's programs has the host's time zone, whether /etc/localtime is an absolute or a relative link.
func TestZoneFile(t *testing.T) {
	const berlin = "/usr/share/zoneinfo/Europe/Berlin"
	for link, want := range map[string]string{
		berlin:                                  berlin,
		"../usr/share/zoneinfo/Europe/Berlin":   berlin,
		"/etc/../usr/share/zoneinfo/Etc/UTC":    "/usr/share/zoneinfo/Etc/UTC",
		"zone":                                  "",
		"/usr/share/zoneinfo/../../../root/key": "",
		"../usr/share/zoneinfo/../../home/key":  "",
		"/var/lib/zone":                         "",
	} {
		if got := zoneFile(link); got != want {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
}
