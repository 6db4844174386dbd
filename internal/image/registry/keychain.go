package registry

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
)

// defaultAsking is how long the credential helpers may take. A helper that prompts a person waits for ever if there is none.
const defaultAsking = 30 * time.Second

// keychain returns the passwords for registries. A credential helper may hang. So there is one request at a time, and each
// caller waits for a limited time: a helper that never answers costs one goroutine, not one for each pull.
type keychain struct {
	keeper authn.Keychain
	most   time.Duration
	turn   chan struct{}
}

func newKeychain(keeper authn.Keychain, most time.Duration) *keychain {
	if most <= 0 {
		most = defaultAsking
	}
	if keeper == nil {
		keeper = authn.DefaultKeychain
	}
	return &keychain{keeper: keeper, most: most, turn: make(chan struct{}, 1)}
}

// Keychain returns the credentials of the user's Docker or Podman configuration, for use without a [Store]. Credential
// helpers may hang: a request ends with its context, or after half a minute.
func Keychain() authn.Keychain { return newKeychain(nil, defaultAsking) }

// Resolve implements [authn.Keychain].
func (k *keychain) Resolve(of authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), of)
}

// ResolveContext implements [authn.ContextKeychain].
func (k *keychain) ResolveContext(ctx context.Context, of authn.Resource) (authn.Authenticator, error) {
	return k.get(ctx, of)
}

// errSilent means that the credential helper does not answer.
var errSilent = errors.New("the program that keeps them does not answer")

// get returns the credentials for a repository: anonymous if there are none, or if the credential helper is not installed.
func (k *keychain) get(ctx context.Context, of authn.Resource) (authn.Authenticator, error) {
	waiting, cancel := context.WithTimeoutCause(ctx, k.most, errSilent)
	defer cancel()
	select {
	case k.turn <- struct{}{}:
	case <-waiting.Done():
		return nil, context.Cause(waiting)
	}
	type answer struct {
		auth authn.Authenticator
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-k.turn }()
		auth, err := authn.Resolve(waiting, k.keeper, of)
		answers <- answer{auth, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil && (errors.Is(a.err, exec.ErrNotFound) || strings.Contains(a.err.Error(), "executable file not found")) {
			return authn.Anonymous, nil
		}
		return a.auth, a.err
	case <-waiting.Done():
		return nil, context.Cause(waiting)
	}
}

// noCredentials returns the error of a pull without credentials that may need them.
func (r *Repository) noCredentials(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	reason := fmt.Sprintf("the credentials for %s cannot be read", r.repo.RegistryStr())
	if errors.Is(err, errSilent) { // other errors may quote secrets
		reason += ": " + err.Error()
	}
	e := r.unavailable(reason, err)
	e.Details["rule"] = "credentials"
	e.Hint = "look at credsStore and credHelpers in the Docker configuration of the user that Belljar runs as"
	return e
}
