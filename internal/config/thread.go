package config

import (
	"fmt"
	"regexp"
	"strings"
)

func threads(c *Config) []row {
	return []row{
		{name: "THREAD_API_ROOT", value: boolean(&c.ThreadRoot), def: "false", doc: "Serve the thread API at the root, too, not only under /thread."},
		{name: "THREAD_GUARD", value: boolean(&c.ThreadGuard), def: "true",
			doc: "Refuse commands at the thread API whose names are not on the list, or that match a pattern. The guard keeps an agent on track; it is not a protection."},
		{name: "THREAD_ALLOWED_COMMANDS", value: list(&c.ThreadCommands, checkCommand),
			def: "jq,awk,grep,sed,sort,uniq,head,tail,wc,cut,tr,cat,echo,date,find,ls,python3,python",
			doc: "Commands that the guard accepts; [] accepts all."},
		{name: "THREAD_DENIED_PATTERNS", value: list(&c.ThreadPatterns, checkPattern),
			def: `["\\brm\\b", "\\bmv\\b", "\\bdd\\b", "\\bcurl\\b", "\\bwget\\b", "\\bssh\\b", "\\bsudo\\b"]`,
			doc: "Regular expressions (RE2, case-insensitive) that a command must not match outside of quotes."},
		{name: "THREAD_MAX_FILE_MB", value: integer(&c.ThreadMaxFileMB, 1, 1<<20), unit: "MiB", def: "100", doc: "Size of one uploaded file."},
		{name: "THREAD_MAX_FILES", value: integer(&c.ThreadMaxFiles, 1, 1000000), unit: "files", def: "1000", doc: "Files in a workspace that accepts further uploads."},
		{name: "THREAD_MAX_WORKSPACE_MB", value: integer(&c.ThreadMaxWorkspaceMB, 1, 1<<20), unit: "MiB", def: "500", doc: "Size of a thread's workspace, including files that commands write. If WORKSPACE_CAP_MB is set and less, that."},
	}
}

func checkCommand(s string) error {
	if strings.ContainsAny(s, " \t\n/") {
		return fmt.Errorf("%q is not the name of a command", s)
	}
	return nil
}

func checkPattern(s string) error {
	if _, err := regexp.Compile("(?i)" + s); err != nil {
		return fmt.Errorf("%q is not a regular expression: %w", s, err)
	}
	return nil
}
