package local

import "strings"

// strange returns the first key of a repository's configuration that is not known to be harmless; "" if there is none. A line that it
// cannot parse counts as strange, because git may read more from it.
func strange(config string) string {
	section := ""
	for line := range strings.SplitSeq(config, "\n") {
		line = strings.TrimSpace(strings.TrimSuffix(line, "\r"))
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case strings.HasSuffix(line, `\`):
			return "a line that continues"
		case line[0] == '[':
			end := strings.LastIndexByte(line, ']')
			if end != len(line)-1 || strings.Count(line, "[") > 1 || strings.Count(line, "]") > 1 {
				return short(line)
			}
			name, sub, quoted := strings.Cut(line[1:end], " ")
			if section = strings.ToLower(name); quoted {
				sub = strings.TrimSpace(sub)
				if len(sub) < 2 || sub[0] != '"' || sub[len(sub)-1] != '"' || strings.ContainsAny(sub[1:len(sub)-1], "\"\\") {
					return short(line)
				}
				section += ".*"
			} else if strings.Contains(section, ".") {
				return short(line)
			}
			continue
		}
		key, _, _ := strings.Cut(line, "=")
		if key = section + "." + strings.ToLower(strings.TrimSpace(key)); !harmless[key] {
			return short(key)
		}
	}
	return ""
}

func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), 80)], "") }

// harmless are the keys that name no program, no other folder and no other file with keys.
var harmless = map[string]bool{
	"core.repositoryformatversion": true, "core.filemode": true, "core.bare": true, "core.logallrefupdates": true, "core.ignorecase": true,
	"core.precomposeunicode": true, "core.symlinks": true, "core.autocrlf": true, "core.eol": true, "core.safecrlf": true, "core.quotepath": true,
	"core.abbrev": true, "core.compression": true, "extensions.objectformat": true, "init.defaultbranch": true, "user.name": true, "user.email": true,
	"remote.*.url": true, "remote.*.fetch": true, "remote.*.pushurl": true, "remote.*.tagopt": true,
	"branch.*.remote": true, "branch.*.merge": true, "branch.*.rebase": true, "pull.rebase": true, "pull.ff": true, "push.default": true,
	"submodule.*.url": true, "submodule.*.active": true, "submodule.active": true, "color.ui": true,
}
