package api

import (
	"net/http/httptest"
	"net/netip"
	"testing"
	"unicode/utf8"
)

func FuzzHeaders(f *testing.F) {
	trusted := proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	f.Fuzz(func(t *testing.T, peer, forwarded, proto, trace, id, source, path string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = peer
		r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"] = []string{forwarded}, []string{proto}
		address, scheme := trusted.client(r)
		if _, err := netip.ParseAddr(address); address != "" && err != nil {
			t.Errorf("address %q", address)
		}
		if scheme != "http" && scheme != "https" {
			t.Errorf("scheme %q", scheme)
		}
		if got := traceID(trace); got != "" && (len(got) != 32 || !lowerHex(got)) {
			t.Errorf("trace %q", got)
		}
		if got := requestID(id); got == "" || len(got) > 128 {
			t.Errorf("request id %q", got)
		}
		if got := label(source); len(got) > 128 || !utf8.ValidString(got) {
			t.Errorf("label %q", got)
		}
		if got := redact(path); len(got) > 210 {
			t.Errorf("path %q", got)
		}
	})
}
