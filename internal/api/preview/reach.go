package preview

import (
	"io"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/belljar/belljar/internal/api"
)

// rewrite prepares the request for the program.
func rewrite(r *httputil.ProxyRequest) {
	label, _ := r.In.Context().Value(labelKey{}).(string)
	out := r.Out
	out.URL.Scheme, out.URL.Host, out.URL.RawQuery = "http", label, r.In.URL.RawQuery
	out.Host = r.In.Host
	h := out.Header
	for name := range h {
		if strings.HasPrefix(name, "X-Belljar-") {
			delete(h, name)
		}
	}
	// Credentials of the API, which a client may send by mistake.
	h.Del("Authorization")
	h.Del("X-Api-Key")
	hideCookie(h)
	address, scheme := api.ClientOf(r.In.Context())
	if address != "" {
		h.Set("X-Forwarded-For", address)
	}
	h.Set("X-Forwarded-Host", r.In.Host)
	h.Set("X-Forwarded-Proto", scheme)
}

// hideCookie removes Belljar's cookie from a request.
func hideCookie(h http.Header) {
	var kept []string
	for _, line := range h.Values("Cookie") {
		for pair := range strings.SplitSeq(line, ";") {
			pair = strings.TrimSpace(pair)
			if name, _, _ := strings.Cut(pair, "="); pair != "" && !ours(name) {
				kept = append(kept, pair)
			}
		}
	}
	h.Del("Cookie")
	if len(kept) > 0 {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
}

// ours reports whether a cookie's name is Belljar's. Browsers compare the prefix without regard to case.
func ours(name string) bool { return strings.EqualFold(strings.TrimSpace(name), cookieName) }

// confine removes headers that reach beyond the response's host: cookies for the domain, Clear-Site-Data, and alternative servers.
func confine(resp *http.Response) error {
	h := resp.Header
	for _, name := range beyond() {
		h.Del(name)
	}
	cookies := h.Values("Set-Cookie")
	h.Del("Set-Cookie")
	for _, cookie := range cookies {
		if cookie, ok := confineCookie(cookie); ok {
			h.Add("Set-Cookie", cookie)
		}
	}
	confineTrailer(resp)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = confinedBody{resp.Body, resp}
	}
	return nil
}

// beyond returns the headers, besides cookies, that reach beyond a host.
func beyond() []string { return []string{"Clear-Site-Data", "Alt-Svc", "Set-Cookie2"} }

func confineTrailer(resp *http.Response) {
	for _, name := range append(beyond(), "Set-Cookie") {
		resp.Trailer.Del(name)
	}
}

// confinedBody is the body of a response, whose trailer arrives at its end.
type confinedBody struct {
	io.ReadCloser
	resp *http.Response
}

func (b confinedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		confineTrailer(b.resp)
	}
	return n, err
}

// confineCookie removes the Domain of a cookie. It reports false if the program may not set the cookie: it has Belljar's name, or
// browsers may parse it in more than one way.
func confineCookie(cookie string) (string, bool) {
	if strings.ContainsFunc(cookie, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", false
	}
	pair, attributes, _ := strings.Cut(cookie, ";")
	name, _, named := strings.Cut(pair, "=")
	if !named || strings.TrimSpace(name) == "" || ours(name) {
		return "", false
	}
	kept := []string{pair}
	for attribute := range strings.SplitSeq(attributes, ";") {
		name, _, _ := strings.Cut(attribute, "=")
		if name = strings.TrimSpace(name); name != "" && !strings.EqualFold(name, "domain") {
			kept = append(kept, attribute)
		}
	}
	return strings.Join(kept, ";"), true
}
