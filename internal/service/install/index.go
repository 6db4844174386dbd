package install

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
)

// Bounds of an index's responses.
const (
	maxAnswer    = 64 << 20 // bytes, of which only one member of a list is in memory at a time
	maxMember    = 2 << 20
	maxMembers   = 500_000 // of one list
	askTime      = 30 * time.Second
	askAtOnce    = 8
	maxHosts     = 32
	maxRedirects = 5
)

// index is a package index of a tool.
type index struct {
	tool *tool
	url  *url.URL
	http http.Client
}

// found is an index's response about one project.
type found struct {
	hosts   map[string]bool // hosts of its files
	built   bool            // at least one of its files needs no build
	missing bool
}

// errMissing means that an index does not have a project.
var errMissing = errors.New("not found")

// awayError means that an index redirects to another host, which no rule opens: a redirect must not decide what the server asks.
type awayError struct{ to *url.URL }

func (e awayError) Error() string { return "it redirects to " + e.to.String() }

// badAnswer is an error in an index's response.
type badAnswer struct{ error }

// parseIndex parses the URL of an index, from a tool or an operator.
func parseIndex(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("must be the URL of an index: https://packages.example.com/simple")
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	if u.RawPath != "" { // it has an escaped slash
		u.RawPath = strings.TrimSuffix(u.RawPath, "/") + "/"
	}
	return u, nil
}

// port returns the port of an index.
func port(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

// open returns an index that is queried within a policy. roots are the trusted authorities; nil is the system's.
func open(t *tool, u *url.URL, roots *x509.CertPool, gate *egress.Gate) *index {
	return &index{tool: t, url: u, http: http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
				host, text, err := net.SplitHostPort(addr)
				if err != nil {
					return nil, err
				}
				n, err := strconv.ParseUint(text, 10, 16)
				if err != nil {
					return nil, err
				}
				return gate.Dial(ctx, host, uint16(n))
			},
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConns: askAtOnce, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errors.New("too many redirects")
			}
			return nil
		},
	}}
}

// close ends the connections to the index.
func (x *index) close() { x.http.CloseIdleConnections() }

// ask queries the index about the projects of requirements, in their order. It fails for the first one that cannot be queried.
func (x *index) ask(ctx context.Context, names []string) ([]found, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answers, errs := make([]found, len(names)), make([]error, len(names))
	slots := make(chan struct{}, askAtOnce)
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if answers[i], errs[i] = x.project(ctx, name); errors.Is(errs[i], errMissing) {
				answers[i].missing, errs[i] = true, nil
			}
		})
	}
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, x.fault(err, names[i], i)
		}
	}
	return answers, nil
}

// fault explains why the query about the i-th requirement, a project with that name, failed.
func (x *index) fault(err error, name string, i int) error {
	e := &belljar.Error{Details: map[string]any{"field": x.tool.field, "index": x.shown()}}
	if x.tool.field == "" {
		e.Details["field"] = fmt.Sprintf("%s[%d]", x.tool.about(), i)
	}
	var denied *egress.DeniedError
	var bad badAnswer
	var away awayError
	switch {
	case errors.Is(err, errMissing):
		e.Code, e.Message = belljar.CodeInvalidRequest, fmt.Sprintf("%s: the index has no package %s", x.tool.name, name)
		e.Hint = "check the name"
	case errors.As(err, &away):
		e.Code, e.Message = belljar.CodePolicyDenied, fmt.Sprintf("%s: the index %s redirects to another host: %s", x.tool.name, x.url.Hostname(), clip(away.to.String()))
		e.Hint = "set the index to the address that has no redirect: in the image, or as an operator in SANDBOX_PACKAGE_MIRRORS"
	case errors.As(err, &denied) && denied.Reason == egress.PrivateAddress:
		e.Code, e.Message = belljar.CodePolicyDenied, fmt.Sprintf("%s: the index %s has no public address", x.tool.name, x.url.Hostname())
		e.Hint = "list the address in egress.ips (--allow), and in SANDBOX_EGRESS_ALLOW of the server, which needs SANDBOX_EGRESS_PRIVATE"
	case errors.As(err, &denied) && denied.Reason == egress.PortDenied:
		e.Code, e.Message = belljar.CodePolicyDenied, fmt.Sprintf("%s: the server allows no port %d, which the index %s has", x.tool.name, denied.Port, x.url.Hostname())
		e.Hint = "an operator adds it to SANDBOX_EGRESS_PORTS"
	case errors.As(err, &denied) && denied.Reason == egress.NoMatch:
		e.Code, e.Message = belljar.CodePolicyDenied, fmt.Sprintf("%s: the index %s leads to %s, which is not allowed", x.tool.name, x.url.Hostname(), denied.Host)
		e.Hint = "an operator lists it in SANDBOX_EGRESS_ALLOW"
	case errors.As(err, &denied):
		e.Code, e.Message = belljar.CodeRuntimeUnavailable, fmt.Sprintf("%s: the index %s cannot be found (%s)", x.tool.name, denied.Host, denied.Reason)
		e.Hint = "check the network of the host"
	case errors.As(err, &bad):
		e.Code, e.Message = belljar.CodeRuntimeUnavailable, fmt.Sprintf("%s: the index %s cannot be used: %v", x.tool.name, x.url.Hostname(), bad)
		e.Hint = "check the address of the index and its permissions, or try again later"
	default:
		e.Code, e.Message, e.Err = belljar.CodeRuntimeUnavailable, fmt.Sprintf("%s: the index %s does not answer", x.tool.name, x.url.Hostname()), err
		e.Hint = "try again later, or check the network of the host"
	}
	return e
}

// shown returns the index's URL without a possible password.
func (x *index) shown() string {
	u := *x.url
	u.User = nil
	return u.String()
}

// page is a response of an index, as a stream.
type page struct {
	at   *url.URL
	kind string
	body io.Reader
}

// get passes a response to read, and returns read's error.
func (x *index) get(ctx context.Context, u *url.URL, read func(page) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", x.tool.accept)
	res, err := x.http.Do(req)
	if err != nil {
		return x.away(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound {
		return errMissing
	}
	if res.StatusCode != http.StatusOK {
		return badAnswer{fmt.Errorf("it answers %d %s", res.StatusCode, http.StatusText(res.StatusCode))}
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return read(page{res.Request.URL, kind, io.LimitReader(res.Body, maxAnswer)})
}

// away converts the error of a request that was redirected to another host.
func (x *index) away(err error) error {
	var denied *egress.DeniedError
	var at *url.Error
	if !errors.As(err, &denied) || denied.Reason != egress.NoMatch || strings.EqualFold(denied.Host, x.url.Hostname()) || !errors.As(err, &at) {
		return err
	}
	to, failed := url.Parse(at.URL)
	if failed != nil {
		return err
	}
	to.User, to.RawQuery, to.Fragment = nil, "", "" // they may have a secret
	return awayError{to}
}

func (x *index) project(ctx context.Context, name string) (f found, err error) {
	u := x.url.JoinPath(x.tool.page(name))
	if x.tool.slash {
		u = u.JoinPath("/")
	}
	f.hosts = map[string]bool{}
	err = x.get(ctx, u, func(p page) error {
		err := x.tool.links(p, func(link string) error {
			u, err := p.at.Parse(link)
			if err != nil || u.Hostname() == "" {
				return nil
			}
			if f.hosts[strings.ToLower(u.Hostname())] = true; len(f.hosts) > maxHosts {
				return errors.New("its files are on too many hosts")
			}
			f.built = f.built || strings.HasSuffix(u.Path, ".whl")
			return nil
		})
		if err != nil {
			return badAnswer{fmt.Errorf("its answer cannot be read: %w", err)}
		}
		return nil
	})
	return f, err
}

var href = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)<a\s[^>]*href\s*=\s*["']([^"'>]+)["']`) })

// htmlLinks visits the links of a page in HTML, tag by tag.
func htmlLinks(body io.Reader, visit func(link string) error) error {
	for r := bufio.NewReaderSize(body, maxTag); ; {
		text, err := r.ReadSlice('>')
		for _, m := range href().FindAllSubmatch(text, -1) {
			if err := visit(string(m[1])); err != nil {
				return err
			}
		}
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return err
		}
	}
}

const maxTag = 64 << 10

// members visits the members of one list or object in a JSON document, one at a time: all of it may not fit into memory.
func members[T any](body io.Reader, field string, visit func(T) error) error {
	ahead := &aheadReader{r: body}
	d := json.NewDecoder(ahead)
	ahead.used = d.InputOffset
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return cmp.Or(err, errors.New("it is no JSON object"))
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if name != field {
			if err := d.Decode(new(skipped)); err != nil {
				return err
			}
			continue
		}
		open, err := d.Token()
		if err != nil || open != json.Delim('[') && open != json.Delim('{') {
			return cmp.Or(err, fmt.Errorf("its %s is no list", field))
		}
		for n := 1; d.More(); n++ {
			if n > maxMembers {
				return fmt.Errorf("its %s are more than %d", field, maxMembers)
			}
			if open == json.Delim('{') {
				if _, err := d.Token(); err != nil {
					return err
				}
			}
			var member T
			if err := d.Decode(&member); err != nil {
				return err
			}
			if err := visit(member); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// skipped is a JSON value to ignore.
type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// aheadReader bounds how far a decoder reads ahead, since it buffers what it has not used yet.
type aheadReader struct {
	r    io.Reader
	n    int64
	used func() int64
}

func (a *aheadReader) Read(p []byte) (int, error) {
	if a.n-a.used() > maxMember {
		return 0, fmt.Errorf("a part of it is larger than %d MiB", maxMember>>20)
	}
	n, err := a.r.Read(p)
	a.n += int64(n)
	return n, err
}

// pipLinks visits the files in a project's page: JSON, or HTML.
func pipLinks(p page, visit func(link string) error) error {
	if !strings.HasSuffix(p.kind, "+json") {
		return htmlLinks(p.body, visit)
	}
	return members(p.body, "files", func(f struct {
		URL string `json:"url"`
	}) error {
		return visit(f.URL)
	})
}

// npmLinks visits the archives in a package's document.
func npmLinks(p page, visit func(link string) error) error {
	return members(p.body, "versions", func(v struct {
		Dist struct {
			Tarball string `json:"tarball"`
		} `json:"dist"`
	}) error {
		return visit(v.Dist.Tarball)
	})
}

// pipFirst returns one project in the list of an index; "" for none.
func pipFirst(p page) (name string) {
	if strings.HasSuffix(p.kind, "+json") {
		_ = members(p.body, "projects", func(project struct{ Name string }) error {
			name = pipProject(project.Name)
			return io.EOF // one is enough
		})
		return name
	}
	_ = htmlLinks(p.body, func(link string) error {
		if u, err := p.at.Parse(link); err == nil {
			name = pipProject(path.Base(u.Path))
		}
		return io.EOF
	})
	return name
}
