package workspace

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

const (
	cookieName = "belljar_workspace"
	cookieTime = 12 * time.Hour
	maxCookies = 10_000
)

// jar keeps the credentials that cookies stand for, in memory, by the hash of the cookie. Each use checks the credential again, so
// that a cookie ends with it.
type jar struct {
	now  func() time.Time
	mu   sync.Mutex
	kept map[[sha256.Size]byte]kept
}

type kept struct {
	header, value string
	expires       time.Time
}

func (j *jar) put(k kept) (cookie string, err error) {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	cookie = base64.RawURLEncoding.EncodeToString(raw)
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.kept) >= maxCookies {
		for key, old := range j.kept {
			if !old.expires.After(j.now()) {
				delete(j.kept, key)
			}
		}
	}
	if len(j.kept) >= maxCookies {
		return "", &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "too many logins"}
	}
	if j.kept == nil {
		j.kept = map[[sha256.Size]byte]kept{}
	}
	j.kept[sha256.Sum256([]byte(cookie))] = k
	return cookie, nil
}

func (j *jar) get(cookie string) (kept, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	k, ok := j.kept[sha256.Sum256([]byte(cookie))]
	return k, ok && k.expires.After(j.now())
}

func (j *jar) drop(cookie string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.kept, sha256.Sum256([]byte(cookie)))
}

// nameOf returns the name of the cookie for a request's scheme: over HTTPS, one that no other host or port can set.
func (d *Door) nameOf(r *http.Request) string {
	if d.opts.Secure(r) {
		return "__Host-" + cookieName
	}
	return cookieName
}

// credential returns the header with which a request identifies its caller; "" if it has none.
func credential(r *http.Request) string {
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		if r.Header.Get(name) != "" {
			return name
		}
	}
	return ""
}

// identify returns the caller of a request: by its own credentials, else by its cookie, else the fallback user.
func (d *Door) identify(auth api.Authenticator, r *http.Request) (*http.Request, belljar.Caller, error) {
	caller, err := d.caller(auth, r)
	if err != nil {
		return r, caller, err
	}
	if caller.Source == "" {
		caller.Source = "workspace"
	}
	r = r.WithContext(api.WithCaller(r.Context(), caller))
	return r, api.CallerOf(r.Context()), nil
}

func (d *Door) caller(auth api.Authenticator, r *http.Request) (belljar.Caller, error) {
	if credential(r) != "" || r.URL.Query().Has("token") {
		return auth.Authenticate(r)
	}
	if cookie, err := r.Cookie(d.nameOf(r)); err == nil {
		if k, ok := d.jar.get(cookie.Value); ok && d.fromOwnPage(r, false) {
			with := r.Clone(r.Context())
			with.Header.Set(k.header, k.value)
			return auth.Authenticate(with)
		}
	}
	if d.opts.User != "" && fromHere(r) && d.fromOwnPage(r, true) {
		return belljar.Caller{ID: d.opts.User, Role: belljar.RoleUser}, nil
	}
	return auth.Authenticate(r)
}

// fromOwnPage reports whether no other web page can have sent a request: it names its own origin, or the browser says that it comes
// from the same one. program allows a request of what is not a browser, too, which has neither.
func (d *Door) fromOwnPage(r *http.Request, program bool) bool {
	if r.Header.Get("Origin") != "" {
		return d.opts.Origin(r)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return !api.IsWebSocket(r)
	case "":
		return program
	}
	return false
}

// fromHere reports whether a request comes from this machine, directly, and names it by a loopback name. A page whose name leads
// here has another Host.
func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	return (host == "localhost" || loopback(host)) && loopback(api.CallerOf(r.Context()).Address)
}

func loopback(address string) bool {
	if n := len(address); n > 2 && address[0] == '[' && address[n-1] == ']' {
		address = address[1 : n-1]
	}
	a, err := netip.ParseAddr(address)
	return err == nil && a.Unmap().IsLoopback()
}

// login exchanges the credentials of a request for a cookie.
func (d *Door) login(w http.ResponseWriter, r *http.Request) {
	api.Route(r.Context(), r.Pattern)
	caller, err := d.opts.Auth.Authenticate(r)
	if err != nil {
		fail(w, r, err)
		return
	}
	api.WithCaller(r.Context(), caller)
	header := credential(r)
	expires := d.opts.Now().Add(cookieTime)
	cookie, err := d.jar.put(kept{header, r.Header.Get(header), expires})
	if err != nil {
		fail(w, r, err)
		return
	}
	http.SetCookie(w, d.cookie(r, cookie, int(cookieTime/time.Second)))
	write(w, http.StatusOK, struct {
		Success   bool      `json:"success"`
		ExpiresAt time.Time `json:"expires_at"`
	}{true, expires.UTC().Truncate(time.Second)})
}

// logout ends a cookie.
func (d *Door) logout(w http.ResponseWriter, r *http.Request) {
	api.Route(r.Context(), r.Pattern)
	if cookie, err := r.Cookie(d.nameOf(r)); err == nil && d.fromOwnPage(r, false) {
		d.jar.drop(cookie.Value)
	}
	http.SetCookie(w, d.cookie(r, "", -1))
	write(w, http.StatusOK, done{Success: true})
}

func (d *Door) cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: d.nameOf(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: d.opts.Secure(r), SameSite: http.SameSiteStrictMode,
	}
}
