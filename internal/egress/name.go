package egress

import (
	"errors"
	"strings"
)

const (
	maxName  = 253
	maxLabel = 63
)

// canonical returns a host name in lower case and without a final dot. It accepts DNS host names: labels of letters, digits and
// hyphens. It refuses a name whose last label is a number, because some programs read it as an address.
func canonical(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	if s == "" {
		return "", errors.New("is empty")
	}
	if len(s) > maxName {
		return "", errors.New("is longer than 253 bytes")
	}
	upper := false
	start := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && s[i] != '.' {
			switch c := s[i]; {
			case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
			case 'A' <= c && c <= 'Z':
				upper = true
			case c >= 0x80:
				return "", errors.New("has letters beyond ASCII")
			default:
				return "", errors.New("has a character other than letters, digits, hyphens and dots")
			}
			continue
		}
		label := s[start:i]
		switch {
		case label == "":
			return "", errors.New("has an empty label")
		case len(label) > maxLabel:
			return "", errors.New("has a label longer than 63 bytes")
		case label[0] == '-', label[len(label)-1] == '-':
			return "", errors.New("has a label that begins or ends with a hyphen")
		}
		start = i + 1
	}
	if upper {
		s = strings.ToLower(s)
	}
	if number(s[strings.LastIndexByte(s, '.')+1:]) {
		return "", errors.New("ends with a number")
	}
	return s, nil
}

// number reports whether a label is a number as inet_aton reads them: decimal, octal or hexadecimal.
func number(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
