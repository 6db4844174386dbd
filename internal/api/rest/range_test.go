package rest

import (
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestParseRange(t *testing.T) {
	const size = 100
	good := map[string]*span{
		"": nil, "seconds=1-2": nil, "bytes": nil, "none": nil,
		"bytes=0-0": {0, 1}, "bytes=0-99": {0, 100}, "bytes=10-19": {10, 10}, "bytes=99-": {99, 1}, "bytes=0-": {0, 100},
		"bytes=-1": {99, 1}, "bytes=-100": {0, 100}, "bytes=-1000": {0, 100}, "bytes=50-1000": {50, 50},
		"bytes=0-99999999999999999999999": {0, 100}, "bytes=-99999999999999999999999": {0, 100},
		"BYTES=0-1": {0, 2}, "bytes= 0 - 1 ": {0, 2},
	}
	delete(good, "bytes") // the unit without a range
	for header, want := range good {
		got, err := parseRange(header, size)
		if err != nil || (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%q is %v, %v, want %v", header, got, err, want)
		}
	}
	bad := map[string]string{
		"bytes=100-": "not in the file", "bytes=100-200": "not in the file", "bytes=-0": "not in the file",
		"bytes=99999999999999999999999-": "not in the file",
		"bytes=":                         "cannot be read", "bytes=-": "cannot be read", "bytes=a-b": "cannot be read", "bytes=2-1": "cannot be read",
		"bytes=1": "cannot be read", "bytes=--1": "cannot be read", "bytes=1-2-3": "cannot be read", "bytes=0x1-2": "cannot be read",
		"bytes=+1-2": "cannot be read", "bytes=１-2": "cannot be read", "bytes": "cannot be read",
		"bytes=0-1,5-6": "Multi-range not supported", "bytes=,": "Multi-range not supported",
	}
	for header, want := range bad {
		got, err := parseRange(header, size)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v, want %s", header, got, err, want)
		}
	}
	for _, header := range []string{"bytes=0-", "bytes=-1", "bytes=0-0"} {
		if got, err := parseRange(header, 0); err == nil {
			t.Errorf("%q of an empty file is %v", header, got)
		}
	}
}

func FuzzParseRange(f *testing.F) {
	for _, seed := range []string{"bytes=0-1", "bytes=-5", "bytes=5-", "bytes=0-1,2-3", "lines=1", "bytes=9223372036854775807-9223372036854775808"} {
		f.Add(seed, int64(10))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		got, err := parseRange(header, size)
		if err != nil {
			if belljar.CodeOf(err) != belljar.CodeInvalidRequest {
				t.Fatal(err)
			}
			return
		}
		if got != nil && (got.start < 0 || got.length < 1 || got.start+got.length > size) {
			t.Fatalf("%q of %d bytes is %+v", header, size, *got)
		}
	})
}

func TestArtifactPath(t *testing.T) {
	for _, good := range []string{"a", "a/b.txt", "a b", "grüße.txt", "100%.txt", "a%2Fb", "..a", "a..", "a/...", "~", "$HOME", "-rf", "a:b", "a\\b"} {
		if got, err := artifactPath(good); err != nil || got != good {
			t.Errorf("%q is %q, %v", good, got, err)
		}
	}
	for _, bad := range []string{
		"", ".", "..", "../a", "a/../b", "a/..", "/etc/passwd", "//etc", "/workspace/a", "./a", "a//b", "a/", "a/./b", "a\x00", "a\nb", "a\rb", "a\tb", "a\x7f",
		"%2e%2e/a", "%" + strings.Repeat("25", 2000) + "41", "..%2fa", "%2e%2e%2fa", "%252e%252e%252fa", "a%00", "a%250a", "..\\a", "a\\..\\b", "..%5ca", "\xff",
	} {
		if got, err := artifactPath(bad); err == nil || belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%q is %q, %v", bad, got, err)
		}
	}
}

func FuzzArtifactPath(f *testing.F) {
	for _, seed := range []string{"a/b", "../a", "..%2f", "%252e%252e", "a\x00b", "/etc", "..\\x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		got, err := artifactPath(given)
		if err != nil {
			return
		}
		if got != given || strings.ContainsAny(got, "\x00\n\r") || strings.HasPrefix(got, "/") || climbs(got) {
			t.Fatalf("%q passes as %q", given, got)
		}
		if clean, err := belljar.CleanPath(got); err != nil || clean != got {
			t.Fatalf("%q is no clean path: %q, %v", got, clean, err)
		}
	})
}
