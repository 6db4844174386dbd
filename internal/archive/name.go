package archive

import (
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// Limits of a name, in bytes.
const (
	maxName = 1024 // the whole path
	maxPart = 255  // one path element
)

// Modes of entries that have none.
const (
	fileMode = 0o644
	dirMode  = 0o755
)

// cleanName checks the name of an entry and returns it without redundant parts ("./", "//", a trailing slash). "." is
// the target folder itself.
func cleanName(name string, dir bool, l Limits) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	if !dir && strings.HasSuffix(name, "/") {
		return "", refuse("type", name, "%s is a file with the name of a folder", shown(name))
	}
	clean := path.Clean(name)
	if clean == "." {
		if dir {
			return clean, nil
		}
		return "", refuse("name", name, "%q is not a file name", shown(name))
	}
	folders := strings.Count(clean, "/")
	if dir {
		folders++
	}
	if folders > l.Depth {
		return "", above("depth", name, int64(l.Depth), "%s lies deeper than %d folders", shown(name), l.Depth)
	}
	return clean, nil
}

// CheckName checks the form of a name. Every upload requires that form.
func CheckName(name string) *belljar.Error {
	switch {
	case name == "":
		return refuse("name", name, "an entry has no name")
	case len(name) > maxName:
		return refuse("name", name, "the name %s is longer than %d bytes", shown(name), maxName)
	case !utf8.ValidString(name):
		e := refuse("utf8", name, "the name %s is not valid UTF-8", shown(name))
		e.Hint = "pack the archive with UTF-8 names"
		return e
	case strings.HasPrefix(name, "/"):
		return refuse("absolute", name, "%s is an absolute path", shown(name))
	case strings.Contains(name, `\`):
		return refuse("backslash", name, "%s has a backslash in its name", shown(name))
	case len(name) >= 2 && name[1] == ':' && unicode.IsLetter(rune(name[0])):
		return refuse("drive", name, "%s begins with a drive", shown(name))
	}
	for _, r := range name {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
			return refuse("control", name, "the name %s has a control character in it", shown(name))
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return refuse("traversal", name, "%s goes up", shown(name))
		}
		if len(part) > maxPart {
			return refuse("name", name, "the name %s has a part longer than %d bytes", shown(name), maxPart)
		}
	}
	return nil
}

// permissions returns the bits of a mode that an upload may set.
func permissions(mode uint32, dir bool) uint32 {
	mode &= 0o777
	switch {
	case dir && mode == 0:
		return dirMode
	case dir:
		return mode | 0o700 // otherwise nothing could be written into the folder
	case mode == 0:
		return fileMode
	}
	return mode
}

// plausible returns t if a file can have that time, else the zero time.
func plausible(t time.Time) time.Time {
	if t.Unix() <= 0 || t.Year() > 2200 {
		return time.Time{}
	}
	return t
}
