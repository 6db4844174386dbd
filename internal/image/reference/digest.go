package reference

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// IsHex reports whether s has hexadecimal digits only, in lower case.
func IsHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// IsDigest reports whether s is a SHA-256 digest, the only kind that is used here.
func IsDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(digits) == 64 && IsHex(digits)
}

// DigestOf returns the digest of data.
func DigestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ShortDigest returns a digest without the name of its hash.
func ShortDigest(id string) string { return id[len("sha256:"):] }
