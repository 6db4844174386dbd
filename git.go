package belljar

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// GitSpec is a Git repository that provides the initial files of a workspace. It is cloned before the sandbox is made, in a side
// sandbox that reaches only the repository's host. Files of the request overwrite files of the repository.
type GitSpec struct {
	URL string `json:"url" minLength:"1"` // https://host[:port]/path, at most 2 KiB, without a user or password
	// Ref is a branch, a tag, or a full commit hash; "" is the repository's default branch.
	Ref string `json:"ref,omitempty"`
	// Depth is how many commits of history are cloned; 0 is 1. It has an effect only with KeepGit.
	Depth int `json:"depth,omitempty" minimum:"1"`
	// Patch is a unified diff, in git diff's format, that is applied to the repository; at most 1 MiB.
	Patch string `json:"patch,omitempty"`
	// Subdir is the folder of the repository that becomes the workspace; "" is the whole repository.
	Subdir string `json:"subdir,omitempty"`
	// KeepGit keeps .git, with the commit checked out. It cannot be combined with Subdir.
	KeepGit bool `json:"keep_git,omitempty"`
	// KeepIgnored keeps the files that the .dockerignore of the repository, or of Subdir, excludes.
	KeepIgnored bool `json:"keep_ignored,omitempty"`
	// Secret is the name of one of the request's secrets, for a private repository. Belljar adds it to the clone's requests as a
	// header. The sandbox in which git runs never sees it.
	Secret string `json:"secret,omitempty"`
}

// GitSource describes the repository that a workspace was cloned from.
type GitSource struct {
	URL    string `json:"url"`
	Ref    string `json:"ref,omitempty"`
	Commit string `json:"commit,omitempty"` // the full hash; "" until it is known
	// Ignored is how many files the repository's .dockerignore excluded.
	Ignored int `json:"ignored,omitempty"`
}

// Bounds of a [GitSpec], in bytes except for the depth.
const (
	maxGitURL   = 2 << 10
	maxGitRef   = 250
	maxGitDepth = 1 << 30
	maxGitPatch = 1 << 20
)

// Validate checks the spec as far as that is possible without a server. The error is [CodeInvalidRequest] and names the field.
func (g *GitSpec) Validate() error {
	if g == nil {
		return nil
	}
	if _, _, err := g.Host(); err != nil {
		return err
	}
	if hint := checkRef(g.Ref); hint != "" {
		return invalidGit("ref", hint, "git.ref %.80q is not the name of a branch, tag or commit", g.Ref)
	}
	if g.Depth < 0 || g.Depth > maxGitDepth {
		e := invalidGit("depth", "leave it out for the commit alone", "git.depth must be from 1 to %d, got %d", maxGitDepth, g.Depth)
		e.Details["provided"], e.Details["minimum"], e.Details["maximum"] = g.Depth, 1, maxGitDepth
		return e
	}
	if err := g.checkPatch(); err != nil {
		return err
	}
	return g.checkSubdir()
}

// Host returns the host and port of the repository. The error is [CodeInvalidRequest].
func (g *GitSpec) Host() (host string, port uint16, err error) {
	refuse := func(hint, format string, args ...any) (string, uint16, error) {
		return "", 0, invalidGit("url", hint, format, args...)
	}
	const form = "write it as https://host/path"
	switch {
	case g.URL == "":
		return refuse(form, "git.url is required")
	case len(g.URL) > maxGitURL:
		return refuse("", "git.url is limited to %d bytes, got %d", maxGitURL, len(g.URL))
	case !utf8.ValidString(g.URL) || strings.ContainsFunc(g.URL, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }):
		return refuse("percent-encode the path", "git.url has a space, a control character, a backslash, or bytes that are not UTF-8")
	case strings.HasPrefix(g.URL, "-"):
		return refuse(form, "git.url begins with a hyphen")
	}
	u, err := url.Parse(g.URL)
	switch {
	case err != nil:
		return refuse(form, "git.url is not a URL") // the parser's error may contain a password
	case u.Scheme == "" || u.Opaque != "" || u.Scheme != "https":
		return refuse("use the repository's https address: https://host/path", "git.url must be https: other ways to a repository are not supported")
	case u.User != nil:
		return refuse("remove the part before the @", "git.url must not have a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(g.URL, "#"):
		return refuse("remove the part after ? or #; a branch or tag goes in git.ref", "git.url must not have a query or fragment")
	case u.Hostname() == "":
		return refuse(form, "git.url has no host")
	}
	if _, err := netip.ParseAddr(strings.Trim(u.Host, "[]")); err == nil || strings.Contains(u.Hostname(), ":") {
		return refuse("name the host", "git.url must have a host's name, not an address")
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return refuse("name the host", "git.url must have a host's name, not an address")
	}
	port = 443
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return refuse(form, "git.url has no port from 1 to 65535")
		}
		port = uint16(n)
	}
	return strings.ToLower(u.Hostname()), port, nil
}

// checkPatch checks that the patch can be sent to git. git itself reports whether it applies.
func (g *GitSpec) checkPatch() error {
	switch {
	case len(g.Patch) > maxGitPatch:
		e := invalidGit("patch", "send the changed files in files, or in an upload", "git.patch is limited to %d bytes, got %d", maxGitPatch, len(g.Patch))
		e.Details["provided"], e.Details["maximum"] = len(g.Patch), maxGitPatch
		return e
	case !utf8.ValidString(g.Patch):
		return invalidGit("patch", "git diff --binary prints binary changes as text", "git.patch is not valid UTF-8")
	case g.Patch != "" && !strings.Contains(g.Patch, "--- ") && !strings.Contains(g.Patch, "diff --git "):
		return invalidGit("patch", "git diff prints one", "git.patch is not a unified diff")
	}
	return nil
}

func (g *GitSpec) checkSubdir() error {
	if g.Subdir == "" {
		return nil
	}
	clean, err := CleanPath(g.Subdir)
	if err == nil && strings.HasPrefix(g.Subdir, "/") {
		err = fmt.Errorf("path is absolute")
	}
	if err == nil {
		err = CheckPlace(clean)
	}
	switch {
	case err != nil:
		return invalidGit("subdir", "name a folder of the repository, such as services/api", "git.subdir %.200q: %v", g.Subdir, err)
	case g.KeepGit:
		return invalidGit("keep_git", "leave one of them out", "git.keep_git and git.subdir exclude each other: .git is that of the whole repository")
	}
	for part := range strings.SplitSeq(clean, "/") {
		if strings.EqualFold(part, ".git") {
			return invalidGit("subdir", "keep_git keeps .git", "git.subdir %.200q is in .git", g.Subdir)
		}
	}
	return nil
}

// checkRef returns the reason why a ref is invalid by the rules of git check-ref-format, or "".
func checkRef(ref string) string {
	switch {
	case ref == "":
		return ""
	case len(ref) > maxGitRef:
		return fmt.Sprintf("it is longer than %d bytes", maxGitRef)
	case !utf8.ValidString(ref):
		return "it is not valid UTF-8"
	case strings.HasPrefix(ref, "-"), strings.HasPrefix(ref, "+"):
		return "it begins with a hyphen or plus sign"
	case ref == "@":
		return "HEAD is the repository's own branch"
	case strings.Contains(ref, ".."), strings.Contains(ref, "@{"), strings.Contains(ref, "//"):
		return "it has .., @{ or //"
	case strings.HasPrefix(ref, "/"), strings.HasSuffix(ref, "/"), strings.HasSuffix(ref, "."):
		return "it begins or ends with a slash, or ends with a dot"
	case strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }):
		return `it has a space, a control character, or one of ~ ^ : ? * [ \`
	}
	for part := range strings.SplitSeq(ref, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return "a part of it begins with a dot or ends with .lock"
		}
	}
	return ""
}

func invalidGit(field, hint, format string, args ...any) *Error {
	e := invalid("git."+field, format, args...)
	e.Hint = hint
	return e
}
