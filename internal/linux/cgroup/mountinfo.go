package cgroup

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// mount is one line of mountinfo about a cgroup file system.
type mount struct {
	version     int    // 1 or 2
	root        string // the mounted folder of the hierarchy
	point       string
	readOnly    bool
	controllers []string // v1 only
}

// parseMounts returns the cgroup file systems in the text of /proc/self/mountinfo. It skips lines that it cannot parse.
func parseMounts(text string) []mount {
	var found []mount
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(head) < 6 || len(tail) < 3 {
			continue
		}
		m := mount{root: unescape(head[3]), point: unescape(head[4])}
		switch tail[0] {
		case "cgroup":
			m.version, m.controllers = 1, strings.Split(tail[2], ",")
		case "cgroup2":
			m.version = 2
		default:
			continue
		}
		for _, options := range []string{head[5], tail[2]} {
			for option := range strings.SplitSeq(options, ",") {
				m.readOnly = m.readOnly || option == "ro"
			}
		}
		// A later mount hides an earlier one at the same place.
		found = slices.DeleteFunc(found, func(hidden mount) bool { return hidden.point == m.point })
		found = append(found, m)
	}
	return found
}

// unescape undoes mountinfo's octal escapes of blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// parseOwn reads the text of /proc/self/cgroup: our own folder in each hierarchy, by controller; "" is cgroup2's.
func parseOwn(text string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			own[controller] = parts[2]
		}
	}
	return own
}

// folder returns the path of the hierarchy's folder own below the mount; the mount point itself if the mount shows
// another part of the hierarchy.
func (m mount) folder(own string) string {
	rel := own
	if m.root != "/" {
		switch {
		case own == m.root:
			rel = "/"
		case strings.HasPrefix(own, m.root+"/"):
			rel = own[len(m.root):]
		default:
			rel = "/"
		}
	}
	if rel == "/.." || strings.HasPrefix(rel, "/../") {
		rel = "/"
	}
	return path.Join(m.point, rel)
}
