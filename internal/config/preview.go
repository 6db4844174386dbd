package config

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// checkPreviewDomain refuses text that cannot be the domain of previews.
func checkPreviewDomain(s string) error {
	host, port := s, ""
	if strings.Contains(s, ":") && !strings.Contains(s, "/") {
		var err error
		if host, port, err = net.SplitHostPort(s); err != nil {
			return errors.New("must be a domain, or domain:port")
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("has no port from 1 to 65535")
		}
	}
	name := regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	if !name.MatchString(host) || len(host) > 200 {
		return errors.New("must be a domain in lower case with a dot, such as preview.example.net, without a scheme, a path or *")
	}
	return nil
}

// PreviewHost returns the domain of previews and its port, "" if the setting has none.
func (c *Config) PreviewHost() (domain, port string) {
	if domain, port, err := net.SplitHostPort(c.PreviewDomain); err == nil {
		return domain, port
	}
	return c.PreviewDomain, ""
}

// checkPreview refuses a domain of previews that browsers treat as the same site as the API. A program's page could otherwise use
// credentials that a browser stores for the API.
func (c *Config) checkPreview(bad func(string, ...any)) {
	domain, _ := c.PreviewHost()
	if domain == "" {
		if c.PreviewPublic {
			bad("SANDBOX_PREVIEW_PUBLIC has no meaning without SANDBOX_PREVIEW_DOMAIN")
		}
		return
	}
	if c.PublicURL == "" {
		if !strings.HasSuffix(domain, ".localhost") {
			bad("SANDBOX_PREVIEW_DOMAIN needs SANDBOX_PUBLIC_URL, to check that they are different sites")
		}
		return
	}
	api := hostOf(c.PublicURL)
	if sameSite(domain, api) {
		bad("SANDBOX_PREVIEW_DOMAIN %s is the same site as %s of SANDBOX_PUBLIC_URL: a page of a program could act for users of the API; choose a domain with another registrable name", domain, api)
	}
	for _, origin := range c.AllowedOrigins {
		if host := hostOf(origin); host == domain || strings.HasSuffix(host, "."+domain) {
			bad("SANDBOX_ALLOWED_ORIGINS has %s, which is a preview: a page of a program could call the API", origin)
		}
	}
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// sameSite reports whether browsers treat the previews below domain and host as one site.
func sameSite(domain, host string) bool {
	if host == domain || strings.HasSuffix(host, "."+domain) {
		return true // the host would count as a preview
	}
	if net.ParseIP(host) != nil {
		return false
	}
	preview, err := publicsuffix.EffectiveTLDPlusOne("x." + domain)
	if err != nil {
		return true
	}
	site, err := publicsuffix.EffectiveTLDPlusOne(host)
	return err == nil && site == preview // a host without a site, such as localhost, is its own site
}
