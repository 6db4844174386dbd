package belljar

// gitTemplate is the header of a clone whose secret sets no template. Most servers check only the password, which is a token.
const gitTemplate = basicScheme + "x-access-token:{}"

// uses reports whether the clone uses the secret with that name.
func (g *GitSpec) uses(name string) bool { return g != nil && g.Secret != "" && g.Secret == name }

// Credential returns the request's secret that the clone uses, as a brokered secret for the repository's host. The header is the secret's
// own if it sets one, else Basic. The value may still be unknown. Do not call it if Secret is "". The error is [CodeInvalidRequest].
func (g *GitSpec) Credential(secrets map[string]Secret) (Secret, error) {
	refuse := func(hint, format string, args ...any) (Secret, error) {
		return Secret{}, invalidGit("secret", hint, format, args...)
	}
	host, port, err := g.Host()
	if err != nil {
		return Secret{}, err
	}
	s, ok := secrets[g.Secret]
	switch {
	case !ok: // the error leaves out the field's content, which may be the value
		return refuse("add the secret to secrets (--secret NAME), and name it", "git.secret is not the name of one of the request's secrets")
	case s.Brokered() && s.Host != host:
		return refuse("leave out its host, or name another secret", "git.secret %s goes to %s alone, and the repository's host is %s", g.Secret, s.Host, host)
	case port != 443:
		return refuse("", "git.secret needs a repository on port 443, and git.url has port %d", port)
	case len(host) > maxHostName || !brokerHost().MatchString(host):
		return refuse("name the host without a full stop at its end", "git.secret cannot go to the host of git.url, %.80q", host)
	}
	if s.Header == "" && s.Template == "" {
		s.Template = gitTemplate
	}
	s.Host = host
	return s, s.CheckBrokered("git.secret")
}

// checkSecret checks that the clone can use its secret.
func (g *GitSpec) checkSecret(secrets map[string]Secret) error {
	if g == nil || g.Secret == "" {
		return nil
	}
	_, err := g.Credential(secrets)
	return err
}
