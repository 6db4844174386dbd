package workspace

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

const (
	cookieName = "belljar_workspace"
	cookieTime = 12 * time.Hour
	maxCookies = 10_000
	maxOwn     = 100         // of one user; the oldest is removed
	source     = "workspace" // of a caller that names none
)

// login is the credential behind a cookie. Each use checks the credential again, so that a cookie ends with it.
type login struct {
	user          string
	header, value string
	expires       time.Time
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

// callers authenticates the callers of the door: by a request's own credentials, else by its cookie, else as the fallback user.
type callers struct {
	*Door
	auth api.Authenticator
}

// Authenticate implements [api.Authenticator].
func (c callers) Authenticate(r *http.Request) (belljar.Caller, error) {
	if credential(r) == "" && !r.URL.Query().Has("token") {
		if l, ok := c.cookie(r); ok {
			r = r.Clone(r.Context())
			r.Header.Set(l.header, l.value)
		} else if c.opts.User != "" && fromHere(r) && c.fromOwnPage(r, true) {
			return belljar.Caller{ID: c.opts.User, Role: belljar.RoleUser, Source: source}, nil
		}
	}
	caller, err := c.auth.Authenticate(r)
	caller.Source = cmp.Or(caller.Source, source)
	return caller, err
}

// cookie returns the login of a request's cookie.
func (d *Door) cookie(r *http.Request) (login, bool) {
	cookie, err := r.Cookie(d.nameOf(r))
	if err != nil || !d.fromOwnPage(r, false) {
		return login{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.logins[cookie.Value]
	return l, ok && l.expires.After(d.opts.Now())
}

// fromOwnPage reports whether the request cannot come from another web page. It must name its own origin, or the browser reports
// the same origin. program also allows requests without either, which do not come from a browser.
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

// fromHere reports whether a request comes directly from this machine and names it by a loopback name. A page whose DNS name
// resolves to this machine has another Host.
func fromHere(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	host := (&url.URL{Host: r.Host}).Hostname()
	return (host == "localhost" || loopback(host)) && loopback(api.CallerOf(r.Context()).Address)
}

func loopback(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.Unmap().IsLoopback()
}

// logIn exchanges the credentials of a request for a cookie.
func (d *Door) logIn(w http.ResponseWriter, r *http.Request) {
	api.Route(r.Context(), r.Pattern)
	caller, err := d.opts.Auth.Authenticate(r)
	if err != nil {
		fail(w, r, err)
		return
	}
	api.WithCaller(r.Context(), caller)
	header := credential(r)
	now, cookie := d.opts.Now(), rand.Text()
	expires := now.Add(cookieTime)
	d.mu.Lock()
	d.makeRoom(caller.ID, now)
	full := len(d.logins) >= maxCookies
	if !full {
		d.logins[cookie] = login{caller.ID, header, r.Header.Get(header), expires}
	}
	d.mu.Unlock()
	if full {
		fail(w, r, &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "too many logins"})
		return
	}
	d.setCookie(w, r, cookie, int(cookieTime/time.Second))
	write(w, http.StatusOK, struct {
		Success   bool      `json:"success"`
		ExpiresAt time.Time `json:"expires_at"`
	}{true, expires.UTC().Truncate(time.Second)})
}

// makeRoom removes expired logins, and the oldest of a user at the limit. The caller holds the lock.
func (d *Door) makeRoom(user string, now time.Time) {
	var own []string
	for cookie, l := range d.logins {
		switch {
		case !l.expires.After(now):
			delete(d.logins, cookie)
		case l.user == user:
			own = append(own, cookie)
		}
	}
	if len(own) >= maxOwn {
		delete(d.logins, slices.MinFunc(own, func(a, b string) int { return d.logins[a].expires.Compare(d.logins[b].expires) }))
	}
}

// logOut deletes a cookie.
func (d *Door) logOut(w http.ResponseWriter, r *http.Request) {
	api.Route(r.Context(), r.Pattern)
	if cookie, err := r.Cookie(d.nameOf(r)); err == nil && d.fromOwnPage(r, false) {
		d.mu.Lock()
		delete(d.logins, cookie.Value)
		d.mu.Unlock()
	}
	d.setCookie(w, r, "", -1)
	write(w, http.StatusOK, done{Success: true})
}

func (d *Door) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: d.nameOf(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: d.opts.Secure(r), SameSite: http.SameSiteStrictMode,
	})
}
