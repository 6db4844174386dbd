package install

import (
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

// Bounds of what is asked of an index.
const (
	maxAnswer    = 64 << 20
	askTime      = 30 * time.Second
	askAtOnce    = 8
	maxHosts     = 32
	maxRedirects = 5
)

// index is where a tool finds packages.
type index struct {
	tool *tool
	url  *url.URL
	http http.Client
}

// found is what an index says about one project.
type found struct {
	hosts map[string]bool // where its files are
	built bool            // some of them need no build
}

// errMissing means that an index has no such project.
var errMissing = errors.New("not found")

// parseIndex reads the address of an index, as a tool or an operator states it.
func parseIndex(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("must be the URL of an index: https://packages.example.com/simple")
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	return u, nil
}

// port is that of an index.
func port(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

// open returns an index that is asked within a policy. roots is whom it trusts; nil is the system's.
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
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConns: askAtOnce,
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

// ask asks the index about the projects of requirements, each by its place in the list. The first that is missing, or that cannot be asked
// for, ends it.
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
			answers[i], errs[i] = x.project(ctx, name)
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

// fault explains why the index did not answer about the i-th requirement, a project of that name.
func (x *index) fault(err error, name string, i int) error {
	e := &belljar.Error{Details: map[string]any{"field": x.tool.field, "index": x.shown()}}
	if x.tool.field == "" {
		e.Details["field"] = fmt.Sprintf("%s[%d]", x.tool.about(), i)
	}
	var denied *egress.DeniedError
	switch {
	case errors.Is(err, errMissing):
		e.Code, e.Message = belljar.CodeInvalidRequest, fmt.Sprintf("%s: the index has no package %s", x.tool.name, name)
		e.Hint = "check the name"
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
	default:
		e.Code, e.Message, e.Err = belljar.CodeRuntimeUnavailable, fmt.Sprintf("%s: the index %s does not answer", x.tool.name, x.url.Hostname()), err
		e.Hint = "try again later, or check the network of the host"
	}
	return e
}

// shown is the index without what could be a password.
func (x *index) shown() string {
	u := *x.url
	u.User = nil
	return u.String()
}

// page is an answer of an index.
type page struct {
	at   *url.URL
	kind string
	body []byte
}

func (x *index) get(ctx context.Context, u *url.URL) (p page, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return p, err
	}
	req.Header.Set("Accept", x.tool.accept)
	res, err := x.http.Do(req)
	if err != nil {
		return p, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound {
		return p, errMissing
	}
	if res.StatusCode != http.StatusOK {
		return p, fmt.Errorf("it answers %s", res.Status)
	}
	p.at = res.Request.URL
	p.kind, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type"))
	p.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return p, err
}

func (x *index) project(ctx context.Context, name string) (f found, err error) {
	u := x.url.JoinPath(x.tool.page(name))
	if x.tool.slash {
		u.Path += "/"
	}
	p, err := x.get(ctx, u)
	if err != nil {
		return f, err
	}
	links, err := x.tool.links(p.kind, p.body)
	if err != nil {
		return f, fmt.Errorf("its answer cannot be read: %w", err)
	}
	f.hosts = map[string]bool{}
	for _, link := range links {
		u, err := p.at.Parse(link)
		if err != nil || u.Hostname() == "" {
			continue
		}
		if f.hosts[strings.ToLower(u.Hostname())] = true; len(f.hosts) > maxHosts {
			return f, errors.New("its files are on too many hosts")
		}
		f.built = f.built || strings.HasSuffix(u.Path, ".whl")
	}
	return f, nil
}

var href = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)<a\s[^>]*href\s*=\s*["']([^"'>]+)["']`) })

// pipLinks are the files in a project's page: JSON, or HTML.
func pipLinks(kind string, body []byte) (links []string, err error) {
	if strings.HasSuffix(kind, "+json") {
		var page struct {
			Files []struct {
				URL string `json:"url"`
			} `json:"files"`
		}
		err = json.Unmarshal(body, &page)
		for _, f := range page.Files {
			links = append(links, f.URL)
		}
		return links, err
	}
	for _, m := range href().FindAllSubmatch(body, -1) {
		links = append(links, string(m[1]))
	}
	return links, nil
}

// npmLinks are the archives in a package's document.
func npmLinks(_ string, body []byte) (links []string, err error) {
	var page struct {
		Versions map[string]struct {
			Dist struct {
				Tarball string `json:"tarball"`
			} `json:"dist"`
		} `json:"versions"`
	}
	err = json.Unmarshal(body, &page)
	for _, v := range page.Versions {
		links = append(links, v.Dist.Tarball)
	}
	return links, err
}

// pipFirst is a project that the list of an index has; "" for none.
func pipFirst(p page) string {
	if strings.HasSuffix(p.kind, "+json") {
		var list struct{ Projects []struct{ Name string } }
		if json.Unmarshal(p.body, &list) != nil || len(list.Projects) == 0 {
			return ""
		}
		return pipProject(list.Projects[0].Name)
	}
	if m := href().FindSubmatch(p.body); m != nil {
		if u, err := p.at.Parse(string(m[1])); err == nil {
			return pipProject(path.Base(u.Path))
		}
	}
	return ""
}
