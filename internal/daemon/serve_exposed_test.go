package daemon

import "testing"

// A server warns of what others can read. A socket of this machine is not among that, whatever its path has in it.
func TestExposed(t *testing.T) {
	for _, c := range []struct {
		listen, url string
		want        bool
	}{
		{"0.0.0.0:80", "http://127.0.0.1:80", true}, {":80", "http://127.0.0.1:80", true}, {"box.example:80", "http://10.0.0.1:80", true},
		{"[::]:80", "http://[::]:80", true}, {"0.0.0.0:443", "https://127.0.0.1:443", false}, {"127.0.0.9:80", "http://127.0.0.9:80", false},
		{"[::1]:80", "http://[::1]:80", false}, {"localhost:80", "http://127.0.0.1:80", false}, {"unix:/run/b.sock", "unix:/run/b.sock", false},
		{"unix:/run/a:1/b.sock", "unix:/run/a:1/b.sock", false},
	} {
		if got := exposed(c.listen, c.url); got != c.want {
			t.Errorf("%s: %t", c.listen, got)
		}
	}
}
