package config

import (
	"strings"
	"testing"
)

func TestPreviewDomain(t *testing.T) {
	for name, tt := range map[string]struct{ domain, public, origins, want string }{
		"other name":        {"preview.example.net", "https://belljar.example.com", "", ""},
		"with port":         {"preview.example.net:8443", "https://belljar.example.com", "", ""},
		"this machine":      {"preview.localhost", "", "", ""},
		"localhost":         {"preview.localhost", "http://localhost:8080", "", ""},
		"address":           {"preview.example.net", "https://203.0.113.1", "", ""},
		"public suffix":     {"github.io", "https://belljar.example.com", "", ""},
		"same site":         {"preview.example.com", "https://belljar.example.com", "", "same site"},
		"below the API":     {"preview.belljar.example.com", "https://belljar.example.com", "", "same site"},
		"the API below":     {"example.com", "https://belljar.example.com", "", "same site"},
		"of two labels":     {"a.example.co.uk", "https://b.example.co.uk", "", "same site"},
		"only a suffix":     {"a.co.uk", "https://b.co.uk", "", ""},
		"the API a preview": {"github.io", "https://belljar.github.io", "", "same site"},
		"upper case API":    {"preview.example.com", "https://BELLJAR.Example.COM", "", "same site"},
		"no public URL":     {"preview.example.net", "", "", "needs SANDBOX_PUBLIC_URL"},
		"its pages call":    {"preview.example.net", "https://belljar.example.com", "https://x.preview.example.net", "SANDBOX_ALLOWED_ORIGINS"},
		"scheme":            {"https://preview.example.net", "https://belljar.example.com", "", "must be a domain"},
		"wildcard":          {"*.example.net", "https://belljar.example.com", "", "must be a domain"},
		"one label":         {"preview", "https://belljar.example.com", "", "must be a domain"},
		"upper case":        {"Preview.example.net", "https://belljar.example.com", "", "must be a domain"},
		"address as domain": {"203.0.113.1", "https://belljar.example.com", "", "must be a domain"},
		"bad port":          {"preview.example.net:0", "https://belljar.example.com", "", "port"},
	} {
		env := []string{"SANDBOX_PREVIEW_DOMAIN=" + tt.domain, "SANDBOX_PUBLIC_URL=" + tt.public, "SANDBOX_ALLOWED_ORIGINS=" + tt.origins}
		_, err := Load(Sources{Env: env})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load(Sources{Env: []string{"SANDBOX_PREVIEW_PUBLIC=true"}}); err == nil {
		t.Error("public previews without a domain")
	}
}
