// Package registry fetches manifests and layers from registries. Only the operator can allow addresses that are not public.
package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Repository is one repository of a registry, for the time of a pull.
type Repository struct {
	repo   name.Repository
	scheme string
	way    *way
	client *http.Client
	ref    string // the requested reference, for errors
}

// Limits for a registry.
const (
	mostRedirects = 5
	tries         = 4 // per request: one try and three retries
	firstPause    = 200 * time.Millisecond
)

// Connect determines the registry's protocol and authentication, and authenticates if required.
func (n *Network) Connect(ctx context.Context, ref reference.Reference) (*Repository, error) {
	repo := ref.Remote().Context()
	host := repo.RegistryStr()
	named := n.lists(withPort(host, "443")) || n.lists(withPort(host, "80"))
	r := &Repository{repo: repo, ref: ref.Name, way: &way{net: n, named: named, inner: n.world}}
	if named {
		r.way.inner = n.named
	}
	var challenge *transport.Challenge
	err := r.again(ctx, func() (err error) {
		challenge, err = r.ping(ctx)
		return err
	})
	if err != nil {
		return nil, r.fail(ctx, err)
	}
	var auth authn.Authenticator = authn.Anonymous
	if r.scheme = "https"; challenge.Insecure {
		r.scheme = "http"
	}
	if asked := challenge.Scheme != ""; asked && (r.scheme == "https" || loopback(host)) { // else anonymous
		if auth, err = n.keychain.get(ctx, repo); err != nil {
			return nil, r.noCredentials(ctx, err)
		}
	}
	token := &transport.Token{}
	if strings.EqualFold(challenge.Scheme, "bearer") {
		err := r.again(ctx, func() (err error) {
			token, err = transport.Exchange(ctx, repo.Registry, auth, r.way, []string{repo.Scope(transport.PullScope)}, challenge)
			return err
		})
		if err != nil {
			return nil, r.fail(ctx, err)
		}
		if token.Token == "" {
			token.Token = token.AccessToken
		}
	}
	signed, err := transport.FromToken(repo.Registry, auth, r.way, challenge, token)
	if err != nil {
		return nil, r.fail(ctx, err)
	}
	r.client = &http.Client{Transport: signed, CheckRedirect: redirect}
	return r, nil
}

// ping asks which authentication the registry requires: over TLS, and over a plain connection if the operator has named the registry and it does
// not speak TLS. If its certificate is wrong, it does not fall back.
func (r *Repository) ping(ctx context.Context) (*transport.Challenge, error) {
	c, err := r.pingOver(ctx, "https")
	var (
		answer      *transport.Error
		certificate *tls.CertificateVerificationError
	)
	if err == nil || errors.As(err, &answer) || errors.As(err, &certificate) || !r.way.named || ctx.Err() != nil {
		return c, err
	}
	return r.pingOver(ctx, "http")
}

func (r *Repository) pingOver(ctx context.Context, scheme string) (*transport.Challenge, error) {
	to, err := name.NewRegistry(r.repo.RegistryStr(), name.Insecure) // it would try both schemes; the transport below refuses one
	if err != nil {
		return nil, err
	}
	o := &only{scheme: scheme, inner: r.way}
	c, err := transport.Ping(ctx, to, o)
	if failed := o.failure(); err != nil && failed != nil {
		err = failed
	}
	return c, err
}

// mostGreeting limits the bytes that are read of the answer to a ping. They have no content, and have no other limit.
const mostGreeting = 64 << 10

// only sends requests of one scheme, and limits their answers.
type only struct {
	scheme string
	inner  http.RoundTripper

	mu     sync.Mutex
	failed error
}

// RoundTrip refuses requests of other schemes.
func (o *only) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != o.scheme {
		return nil, &refusal{"it leads to " + r.URL.Host + " over " + r.URL.Scheme}
	}
	resp, err := o.inner.RoundTrip(r)
	if err != nil {
		o.mu.Lock()
		o.failed = err
		o.mu.Unlock()
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, mostGreeting), resp.Body}
	return resp, nil
}

// failure returns why the last request failed, without the error of the other scheme; nil if it was answered.
func (o *only) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// redirect follows a few redirects, and none that leaves TLS. The transport sends tokens and passwords to the registry's own host only.
func redirect(r *http.Request, via []*http.Request) error {
	if len(via) > mostRedirects {
		return &refusal{fmt.Sprintf("it leads on more than %d times", mostRedirects)}
	}
	if via[len(via)-1].URL.Scheme == "https" && r.URL.Scheme != "https" {
		return &refusal{"it leads from TLS to " + r.URL.Host + " without"}
	}
	return nil
}

func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(unbracket(host), port)
}

// again retries do after temporary failures: a broken connection, or an error of the registry.
func (r *Repository) again(ctx context.Context, do func() error) error {
	pause := firstPause
	for i := 1; ; i++ {
		err := do()
		if err == nil || i == tries || !passing(err) || ctx.Err() != nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
}

// get requests an object of the repository, from an offset on. The caller closes the body.
func (r *Repository) get(ctx context.Context, kind, id, accept string, from int64) (*http.Response, error) {
	url := fmt.Sprintf("%s://%s/v2/%s/%s/%s", r.scheme, r.repo.RegistryStr(), r.repo.RepositoryStr(), kind, id)
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		q.Header.Set("Accept", accept)
	}
	if from > 0 {
		q.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := r.client.Do(q)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, http.StatusOK, http.StatusPartialContent); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// Manifest fetches the manifest of a tag or digest.
func (r *Repository) Manifest(ctx context.Context, id string) (data []byte, kind string, err error) {
	err = r.again(ctx, func() error {
		resp, err := r.get(ctx, "manifests", id, strings.Join(manifest.ManifestKinds(), ", "), 0)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		data, err = io.ReadAll(io.LimitReader(resp.Body, manifest.MaxManifest+1))
		kind = resp.Header.Get("Content-Type")
		return err
	})
	if err != nil {
		return nil, "", r.fail(ctx, err)
	}
	if len(data) > manifest.MaxManifest {
		return nil, "", fault.Invalid("manifest", "the manifest of %s is larger than %d bytes", r.ref, manifest.MaxManifest)
	}
	if got := reference.DigestOf(data); strings.HasPrefix(id, "sha256:") && got != id {
		return nil, "", fault.Invalid("digest", "the registry has sent %s for %s", got, id)
	}
	return data, kind, nil
}

// SmallBlob fetches a blob that fits into memory.
func (r *Repository) SmallBlob(ctx context.Context, d manifest.Descriptor) ([]byte, error) {
	b := r.Blob(ctx, d)
	defer b.Close()
	data, err := io.ReadAll(io.LimitReader(b, d.Size+1))
	if err != nil {
		return nil, err
	}
	if got := reference.DigestOf(data); got != d.Digest {
		return nil, fault.Invalid("digest", "the registry has sent %s for %s", got, d.Digest)
	}
	return data, nil
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
