package egress

import (
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	label := strings.Repeat("a", 63)
	longest := strings.Join([]string{label, label, label, label[:61]}, ".") // 253
	for _, tt := range []struct{ name, want string }{
		{"example.com", "example.com"},
		{"EXAMPLE.Com", "example.com"},
		{"example.com.", "example.com"},
		{"example.com..", ""},
		{".", ""},
		{"", ""},
		{".example.com", ""},
		{"a..b", ""},
		{"localhost", "localhost"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"a-b.example", "a-b.example"},
		{"-a.example", ""},
		{"a-.example", ""},
		{"a_b.example", ""},
		{"1.example", "1.example"},
		{"example.1", ""},
		{"example.0x7f", ""},
		{"0x7f000001", ""},
		{"0x", ""},
		{"0xyz", "0xyz"},
		{"127.1", ""},
		{"2130706433", ""},
		{"0177.0.0.1", ""},
		{"10.0.0.1", ""},
		{"10.0.0.1.", ""},
		{"[::1]", ""},
		{"::1", ""},
		{"evil\x00.example.com", ""},
		{"example.com\x00", ""},
		{"example.com\r\nHost: evil", ""},
		{"example.com\n", ""},
		{"example%2ecom", ""},
		{"example.com:443", ""},
		{"example.com/", ""},
		{"user@example.com", ""},
		{"*.example.com", ""},
		{" example.com", ""},
		{"ex ample.com", ""},
		{"\u0435xample.com", ""},       // a Cyrillic letter
		{"example\u3002com", ""},       // a dot, to some
		{"\uff45xample.com", ""},       // full width
		{"example.com\u200b", ""},      // invisible
		{"\u212aelvin.example", ""},    // the sign that lower case makes a k
		{"\xff.example", ""},           // no text
		{strings.Repeat("a", 300), ""}, //
		{label + ".example", label + ".example"},
		{label + "a.example", ""},
		{longest, longest},
		{longest + ".", longest},
		{longest + "a", ""},
		{strings.Repeat("a.", 500000), ""},
	} {
		got, err := canonical(tt.name)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("canonical(%.60q) = %.60q, %v; want %.60q", tt.name, got, err, tt.want)
		}
	}
}
